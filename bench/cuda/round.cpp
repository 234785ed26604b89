// SPDX-License-Identifier: Apache-2.0
#include "cuda/round.hpp"

#include <causeway/compress/block_int8.hpp>
#include <causeway/cuda/backend.hpp>
#include <causeway/cuda/codec.hpp>
#include <causeway/cuda/nesterov.hpp>

#include "cuda/step.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace bench {

using namespace causeway;

namespace {

using row = aligned_buffer<float>;

class round_meter {
 public:
  explicit round_meter(int repeats) : repeats_{repeats} {}

  /// `f` is done when it returns.
  template <class F>
  result<void> measure(const std::string& part, double crossing, F&& f) {
    CAUSEWAY_TRY(f());  // reserves what it needs
    std::vector<double> times;
    for (int i = 0; i < repeats_; ++i) {
      const auto begin = std::chrono::steady_clock::now();
      CAUSEWAY_TRY(f());
      times.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
    }
    std::nth_element(times.begin(), times.begin() + std::ssize(times) / 2, times.end());
    figures_.push_back({part, times[times.size() / 2], crossing});
    return {};
  }
  [[nodiscard]] std::vector<round_figure> take() { return std::move(figures_); }

 private:
  int repeats_;
  std::vector<round_figure> figures_;
};

/// Calls `f(values, bytes)` for each message of a row.
template <class F>
result<void> for_messages(const compress::block_int8& how, std::span<float> values, std::span<std::byte> bytes, F&& f) {
  constexpr std::size_t length = std::size_t{4} << 20U;
  for (std::size_t at = 0; at < values.size(); at += length) {
    const auto part = values.subspan(at, std::min(length, values.size() - at));
    CAUSEWAY_TRY(f(part, bytes.first(how.encoded_size(part.size()))));
    bytes = bytes.subspan(how.encoded_size(part.size()));
  }
  return {};
}

}  // namespace

result<std::vector<round_figure>> measure_round(bool quick) {
  CAUSEWAY_ASSIGN(const auto engine, open_engine(false));
  cuda::backend backend{engine};
  const std::size_t n = quick ? std::size_t{1} << 20U : 124'439'808;
  const auto count = static_cast<std::int64_t>(n);
  row anchor{n, backend.source()}, local{n, backend.source()}, delta{n, backend.source()};
  for (std::size_t i = 0; i < n; ++i) local[i] = static_cast<float>(i * 2654435761U % 1000) * 1e-6F;
  cuda::nesterov outer{engine};
  outer.reset(count);
  const cuda::codec<compress::block_int8> codec{engine};
  std::vector<std::byte> bytes(codec.encoded_size(n) + 4096);
  const auto crossing = static_cast<double>(codec.encoded_size(n));
  thread_pool& pool = backend.pool();

  round_meter m{quick ? 1 : 7};
  CAUSEWAY_TRY(
      m.measure("difference", 0, [&] { return backend.rows().subtract(delta.span(), anchor.span(), local.span()); }));
  CAUSEWAY_TRY(m.measure("encode", crossing, [&] {
    return for_messages(codec.wrapped(), delta.span(), bytes, [&](std::span<float> part, std::span<std::byte> room) {
      codec.encode(pool, part, room);
      return result<void>{};
    });
  }));
  CAUSEWAY_TRY(m.measure("decode", crossing, [&] {
    return for_messages(codec.wrapped(), delta.span(), bytes,
                        [&](std::span<float> part, std::span<std::byte> room) { return codec.decode(pool, room, part); });
  }));
  CAUSEWAY_TRY(m.measure("outer step", 0, [&] {
    outer.step(pool, {anchor.span(), delta.span(), {}}, {.learning_rate = 1e-3F});
    return backend.finish();
  }));
  CAUSEWAY_TRY(m.measure("copy", 0, [&] { return backend.rows().copy(local.span(), anchor.span()); }));
  CAUSEWAY_TRY(m.measure("state hash", 0, [&] {
    (void)backend.hash(local.span());
    return backend.finish();
  }));
  return m.take();
}

}  // namespace bench
