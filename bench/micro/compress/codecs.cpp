// SPDX-License-Identifier: Apache-2.0

// What codecs cost: encode, decode and decode_add in GB/s of f32 values, and as a share of what memcpy copies of the same
// values in the same run. `read` and `sum` are loops that read f32, and that add one array of f32 to another: what encode
// and decode_add would reach if codes took neither time nor space. Large arrays stream from memory; small ones (256 KiB,
// a collective's chunk) stay in the second-level cache. Shares are medians of rounds in which the codec and memcpy took
// turns, so that a machine with neighbours does not compare one minute with another; one thread counts processor time.
//   codecs [threads] [large|small] [portable|avx2|avx512] [name]

#include <causeway/compress/bf16.hpp>
#include <causeway/compress/bits.hpp>
#include <causeway/compress/block_int8.hpp>
#include <causeway/compress/codebook.hpp>
#include <causeway/compress/dynamic_int8.hpp>
#include <causeway/compress/e3m0.hpp>
#include <causeway/compress/fp16.hpp>
#include <causeway/compress/none.hpp>
#include <causeway/compress/sigma_int8.hpp>
#include <causeway/compress/sign.hpp>
#include <causeway/core/rng.hpp>
#include <causeway/kernels/elementwise.hpp>
#include <causeway/tensor/buffer.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <string_view>
#include <vector>

namespace {

using namespace causeway;
using kernels::simd_level;

/// Of the processor, so that neighbours who want it too do not count; with several threads, on the wall.
template <class F>
double seconds(bool alone, F&& f) {
  using clock = std::chrono::steady_clock;
  const auto start = clock::now();
  const std::clock_t ticks = std::clock();
  f();
  if (alone) return static_cast<double>(std::clock() - ticks) / CLOCKS_PER_SEC;
  return std::chrono::duration<double>(clock::now() - start).count();
}

double median(std::vector<double> all) {
  std::nth_element(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(all.size() / 2), all.end());
  return all[all.size() / 2];
}

struct setup {
  thread_pool& pool;
  simd_level level;
  std::size_t n;
  aligned_buffer<float> x, y;
  aligned_buffer<std::byte> bytes;

  setup(thread_pool& p, simd_level l, std::size_t count)
      : pool{p}, level{l}, n{count}, x{count}, y{count}, bytes{count * 5} {
    rng draw{1};
    for (std::size_t i = 0; i < n; ++i) x[i] = draw.normal() * 1e-3F, y[i] = 0;
    std::memset(bytes.data(), 0, bytes.size());
  }

  void copy() {
    pool.for_range(static_cast<std::int64_t>(n), 64, [&](index_range r) {
      std::memcpy(y.data() + r.begin, x.data() + r.begin, static_cast<std::size_t>(r.size()) * 4);
    });
  }

  struct rate {
    double gb_s, share;
  };

  /// Calls are repeated within a round until they take about 20 ms.
  template <class F>
  rate measure(F&& f) {
    f();
    const bool alone = pool.size() == 1;
    const int repeats = std::max(1, static_cast<int>(0.02 / std::max(seconds(alone, f), 1e-7)));
    std::vector<double> times, shares;
    for (int round = 0; round < 11; ++round) {
      const double copied = seconds(alone, [&] {
        for (int i = 0; i < repeats; ++i) copy();
      });
      const double took = seconds(alone, [&] {
        for (int i = 0; i < repeats; ++i) f();
      });
      times.push_back(took / repeats), shares.push_back(copied / took);
    }
    return {static_cast<double>(n) * 4e-9 / median(times), median(shares)};
  }

  template <class C>
  void codec(const char* label, const C& c) {
    const std::span<const float> values{x.data(), n};
    const std::span<float> room{y.data(), n};
    const std::size_t size = c.encode(pool, values, {bytes.data(), bytes.size()}, level);
    const std::span<const std::byte> message{bytes.data(), size};
    const rate e = measure([&] { c.encode(pool, values, {bytes.data(), bytes.size()}, level); });
    const rate d = measure([&] { c.decode(pool, message, room, level).value(); });
    const rate a = measure([&] { c.decode_add(pool, message, room, 0.5F, level).value(); });
    std::printf("%-16s %6.3f   %6.1f %5.0f %%   %6.1f %5.0f %%   %6.1f %5.0f %%\n", label,
                8 * static_cast<double>(size) / static_cast<double>(n), e.gb_s, 100 * e.share, d.gb_s, 100 * d.share,
                a.gb_s, 100 * a.share);
    std::fflush(stdout);
  }
};

struct add_up {
  static constexpr bool exact = true;
  CAUSEWAY_ALWAYS_INLINE static float run(const float* p, std::int64_t count) {
    return kernels::detail::sum_lanes(
        count, [&](kernels::detail::f32x8& v, std::int64_t i) CAUSEWAY_INLINE_LAMBDA { std::memcpy(&v, p + i, sizeof v); },
        [&](std::int64_t i) CAUSEWAY_INLINE_LAMBDA { return p[i]; });
  }
};

void loops(setup& s) {
  const auto count = static_cast<std::int64_t>(s.n);
  const auto print = [](const char* label, setup::rate r) {
    std::printf("%-16s %15.1f %5.0f %%\n", label, r.gb_s, 100 * r.share);
  };
  print("memcpy", s.measure([&] { s.copy(); }));
  std::vector<float> sums(64 * s.pool.size());
  print("read", s.measure([&] {
    s.pool.run([&](unsigned i) {
      const index_range r = share_of(count, i, s.pool.size(), 64);
      sums[std::size_t{64} * i] = kernels::detail::dispatch<add_up>(s.level, s.x.data() + r.begin, r.size());
    });
  }));
  print("sum", s.measure([&] { kernels::axpy(s.pool, s.y.data(), 0.5F, s.x.data(), count, s.level); }));
}

}  // namespace

int main(int argc, char** argv) {
  const auto argument = [&](int i, std::string_view otherwise) { return argc > i ? std::string_view{argv[i]} : otherwise; };
  thread_pool pool{argc > 1 ? static_cast<unsigned>(std::atoi(argv[1])) : 1U};
  const bool small = argument(2, "large") == "small";
  simd_level level = kernels::detect_simd_level();
  if (argument(3, "") == "portable") level = simd_level::portable;
  if (argument(3, "") == "avx2") level = std::min(level, simd_level::avx2);
  const std::string_view only = argument(4, "");
  setup s{pool, level, std::size_t{1} << (small ? 16U : 24U)};
  std::printf("%u threads, %zu MiB of f32 normal values, %.*s; GB/s of f32 and share of memcpy\n", pool.size(), s.n >> 18U,
              static_cast<int>(to_string(level).size()), to_string(level).data());
  loops(s);
  std::printf("%-16s %6s   %14s   %14s   %14s\n", "codec", "bits", "encode", "decode", "decode_add");
  const auto codec = [&](const char* label, const auto& c) {
    if (only.empty() || only == label) s.codec(label, c);
  };
  using namespace compress;
  codec("none", none{});
  codec("bf16", compress::bf16{});
  codec("fp16", fp16{});
  codec("block_int8", block_int8{});
  codec("dynamic_int8", dynamic_int8{});
  codec("sigma_int8", sigma_int8{});
  codec("codebook2", codebook<2>{});
  codec("bits8", bits<8>{});
  codec("bits4", bits<4>{});
  codec("bits4_stochastic", bits<4>{{.stochastic = true}});
  codec("bits4_rms", bits<4>{{.scale = bucket_scale::rms}});
  codec("bits5", bits<5>{});
  codec("bits3", bits<3>{});
  codec("bits2", bits<2>{});
  codec("bits2_rms", bits<2>{{.scale = bucket_scale::rms}});
  codec("bits2_stochastic", bits<2>{{.stochastic = true}});
  codec("bits1", bits<1>{});
  codec("e3m0", e3m0{});
  codec("sign", sign{});
  codec("sign_unscaled", sign{{.scaled = false}});
}
