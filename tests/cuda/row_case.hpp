// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TESTS_CUDA_ROW_CASE_HPP
#define CAUSEWAY_TESTS_CUDA_ROW_CASE_HPP

// What rounds ask of an engine, against the CPU: for the engine of the host and for that of a device.

#include <causeway/cuda/backend.hpp>
#include <causeway/cuda/codec.hpp>
#include <causeway/cuda/nesterov.hpp>
#include <causeway/cuda/rows.hpp>
#include <causeway/kernels/row_hash.hpp>
#include <causeway/kernels/rows.hpp>
#include <causeway/optim/nesterov.hpp>

#include "cuda/body_support.hpp"
#include "cuda/wire_case.hpp"
#include "support/catch.hpp"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

namespace causeway_test {

/// Bytes and values of one codec; n values.
template <class Codec>
void compare_codec(const std::shared_ptr<causeway::cuda::engine>& engine, const Codec& how, std::size_t n) {
  INFO(std::string{Codec::name} << ", " << n << " values");
  causeway::thread_pool pool{1};
  const causeway::cuda::codec codec{engine, how};
  auto here = numbers(n, 1);
  causeway::aligned_buffer<float> there{n, causeway::cuda::memory_of(*engine)};
  std::copy(here.begin(), here.end(), there.data());
  std::vector<std::byte> bytes(how.encoded_size(n)), expected(how.encoded_size(n));
  codec.encode(pool, there.span(), bytes);
  how.encode(pool, here, expected);
  CHECK(bytes == expected);
  REQUIRE(codec.decode(pool, bytes, there.span()));
  REQUIRE(how.decode(pool, bytes, here));
  CHECK(std::equal(here.begin(), here.end(), there.data()));
  REQUIRE(codec.decode_add(pool, bytes, there.span(), -0.3F));
  REQUIRE(how.decode_add(pool, bytes, here, -0.3F));
  CHECK(std::equal(here.begin(), here.end(), there.data()));
  std::fill(bytes.begin(), bytes.end(), std::byte{0xFF});
  CHECK_FALSE(codec.decode_add(pool, bytes, there.span(), 1.0F));
  CHECK(std::equal(here.begin(), here.end(), there.data()));
}

/// Codecs, differences, the outer step and the hash.
inline void compare_rounds_with_cpu(const std::shared_ptr<causeway::cuda::engine>& engine, std::size_t n) {
  using namespace causeway;
  wire_case::for_codecs([&](const auto& how) { compare_codec(engine, how, n); });

  using row = std::vector<float, source_allocator<float>>;
  const auto make = [&](std::uint64_t seed) {
    const auto values = numbers(n, seed);
    return row{values.begin(), values.end(), source_allocator<float>{cuda::memory_of(*engine)}};
  };
  thread_pool pool{1};
  cuda::backend backend{engine};
  row anchor = make(1), local = make(2), delta = make(3);
  auto here_anchor = numbers(n, 1), here_local = numbers(n, 2), here_delta = numbers(n, 3);
  cuda::nesterov there{engine};
  optim::nesterov here;
  there.reset(static_cast<std::int64_t>(n));
  here.reset(static_cast<std::int64_t>(n));
  for (int round = 0; round < 3; ++round) {
    REQUIRE(backend.rows().subtract(delta, anchor, local));
    there.step(pool, {anchor, delta, {}}, {.learning_rate = 0.7F});
    REQUIRE(backend.rows().copy(local, delta));
    kernels::subtract(pool, here_delta.data(), here_anchor.data(), here_local.data(), std::ssize(delta));
    here.step(pool, {here_anchor, here_delta, {}}, {.learning_rate = 0.7F});
    here_local = here_delta;
  }
  CHECK(std::equal(anchor.begin(), anchor.end(), here_anchor.begin()));
  CHECK(backend.hash(anchor) == kernels::row_hash(pool, here_anchor));
}

/// A row in memory of an engine, and the same one here.
struct there_and_here {
  std::vector<float, causeway::source_allocator<float>> there;
  std::vector<float> here;

  there_and_here(const std::shared_ptr<causeway::cuda::engine>& engine, std::size_t n, std::uint64_t seed)
      : there{causeway::source_allocator<float>{causeway::cuda::memory_of(*engine)}}, here{numbers(n, seed)} {
    there.assign(here.begin(), here.end());
  }
  [[nodiscard]] bool equal() const { return std::equal(there.begin(), there.end(), here.begin(), here.end()); }
};

/// All that a context's `rows()` can do.
inline void compare_row_arithmetic(const std::shared_ptr<causeway::cuda::engine>& engine, std::size_t n) {
  using namespace causeway;
  thread_pool pool{1};
  const cuda::rows rows{*engine, pool};
  const kernels::host_rows host{pool};
  there_and_here a{engine, n, 1}, b{engine, n, 2}, c{engine, n, 3}, y{engine, n, 4}, v{engine, n, 5},
      part{engine, n / 2, 6};
  const auto step = [&](auto&& how) {
    const auto there = how(
        rows, [](auto& row) -> auto& { return row.there; });
    const auto here = how(
        host, [](auto& row) -> auto& { return row.here; });
    CHECK(there);
    CHECK(here);
    for (const auto* row : {&a, &b, &c, &y, &v, &part}) CHECK(row->equal());
  };
  step([&](const auto& r, auto of) { return r.subtract(of(y), of(a), of(b)); });
  step([&](const auto& r, auto of) { return r.scale(of(y), 0.37F); });
  step([&](const auto& r, auto of) { return r.add(of(y), -0.9F, of(c)); });
  step([&](const auto& r, auto of) { return r.blend(of(y), 0.3F, of(a), 0.6F); });
  step([&](const auto& r, auto of) { return r.compensate(of(y), of(a), of(b), {.steps = 3.0F}); });
  step([&](const auto& r, auto of) { return r.gossip(of(y), of(v), of(a), of(b), {.gamma = 0.6F}); });
  step([&](const auto& r, auto of) { return r.copy(of(c), of(y)); });
  for (std::size_t i = 0; i < n; i += 3) a.here[i] = a.there[i] = 0.0F;  // nothing came
  CHECK(rows.take_over(y.there, b.there, a.there));
  for (std::size_t i = 0; i < n; ++i) {
    if (a.here[i] != 0) y.here[i] = b.here[i];
  }
  CHECK(y.equal());
  const auto half = static_cast<std::int64_t>(n / 2);
  const std::vector<index_range> ranges{{1, 4}, {half, 2 * half - 3}};
  step([&](const auto& r, auto of) { return r.gather(ranges, of(y), of(part)); });
  step([&](const auto& r, auto of) { return r.zero(of(y)); });
  step([&](const auto& r, auto of) { return r.scatter(ranges, of(part), of(y)); });
}

}  // namespace causeway_test

#endif  // CAUSEWAY_TESTS_CUDA_ROW_CASE_HPP
