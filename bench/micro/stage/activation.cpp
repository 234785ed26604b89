// SPDX-License-Identifier: Apache-2.0

// What activation codecs cost: bytes a row, and encode and decode in GB/s of f32 values and as a share of what memcpy
// copies of the same values. Shares are medians of rounds in which codec and memcpy took turns. Normal values; a codec that
// remembers has seen every sample before.
//   activation [threads] [rows] [width] [name]

#include <causeway/compress/bf16.hpp>
#include <causeway/compress/bits.hpp>
#include <causeway/compress/block_int8.hpp>
#include <causeway/compress/dynamic_int8.hpp>
#include <causeway/compress/fp16.hpp>
#include <causeway/core/rng.hpp>
#include <causeway/stage/activation.hpp>
#include <causeway/stage/adaptive_top_k.hpp>
#include <causeway/stage/delta.hpp>
#include <causeway/stage/subspace.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <string_view>
#include <vector>

namespace {

using namespace causeway;

template <class F>
double seconds(F&& f) {
  using clock = std::chrono::steady_clock;
  const auto start = clock::now();
  f();
  return std::chrono::duration<double>(clock::now() - start).count();
}

double median(std::vector<double> all) {
  std::nth_element(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(all.size() / 2), all.end());
  return all[all.size() / 2];
}

struct rate {
  double gb_s, share;
};

class setup {
 public:
  setup(unsigned threads, std::int64_t rows, std::int64_t width)
      : pool_{threads}, ids_(8), x_(static_cast<std::size_t>(rows * width)), y_(x_.size()) {
    std::iota(ids_.begin(), ids_.end(), 0);
    c_ = {.rows = rows, .width = width, .sequences = 8, .samples = ids_, .seed = 1};
    rng draw{1};
    for (float& v : x_) v = draw.normal();
  }

  template <class A>
  void codec(const char* label, A a, stage::direction way = stage::direction::forward) {
    stage::crossing c = c_;
    c.way = way;
    std::vector<std::byte> room(a.most_bytes(c));
    if constexpr (A::traits.stateful) {  // the first visit
      static_cast<void>(a.encode(pool_, c, x_, room).value());
      a.commit_step().value();
      for (float& v : x_) v *= 1.01F;
    }
    const std::size_t size = a.encode(pool_, c, x_, room).value();
    const std::span<const std::byte> bytes{room.data(), size};
    const rate e = measure([&] { static_cast<void>(a.encode(pool_, c, x_, room).value()); });
    const rate d = measure([&] { a.decode(pool_, c, bytes, y_).value(); });
    const double row = static_cast<double>(size) / static_cast<double>(c.rows);
    std::printf("%-24s %9.1f %7.1f   %6.2f %5.0f %%   %6.2f %5.0f %%\n", label, row, static_cast<double>(4 * c.width) / row,
                e.gb_s, 100 * e.share, d.gb_s, 100 * d.share);
    std::fflush(stdout);
  }

 private:
  void copy() {
    pool_.for_range(std::ssize(x_), 64, [&](index_range r) {
      std::memcpy(y_.data() + r.begin, x_.data() + r.begin, static_cast<std::size_t>(r.size()) * 4);
    });
  }

  /// Calls are repeated within a round until they take about 20 ms.
  template <class F>
  rate measure(F&& f) {
    f();
    const int repeats = std::max(1, static_cast<int>(0.02 / std::max(seconds(f), 1e-7)));
    std::vector<double> times, shares;
    for (int round = 0; round < 11; ++round) {
      const double copied = seconds([&] {
        for (int i = 0; i < repeats; ++i) copy();
      });
      const double took = seconds([&] {
        for (int i = 0; i < repeats; ++i) f();
      });
      times.push_back(took / repeats), shares.push_back(copied / took);
    }
    return {static_cast<double>(x_.size()) * 4e-9 / median(times), median(shares)};
  }

  thread_pool pool_;
  std::vector<std::uint64_t> ids_;
  std::vector<float> x_, y_;
  stage::crossing c_;
};

}  // namespace

int main(int argc, char** argv) {
  const auto number = [&](int i, int otherwise) { return argc > i ? std::atoi(argv[i]) : otherwise; };
  const std::string_view only = argc > 4 ? argv[4] : "";
  const int rows = std::max(8, number(2, 2048) / 8 * 8), width = number(3, 1024);
  setup s{static_cast<unsigned>(number(1, 1)), rows, width};
  std::printf("%d threads, %d rows of %d; GB/s of f32 and share of memcpy\n", number(1, 1), rows, width);
  std::printf("%-24s %9s %7s   %14s   %14s\n", "codec", "bytes/row", "below", "encode", "decode");
  const auto codec = [&](const char* label, auto a, stage::direction way = stage::direction::forward) {
    if (only.empty() || only == label) s.codec(label, std::move(a), way);
  };
  using namespace stage;
  codec("plain", plain{});
  codec("fp16", coded<compress::fp16>{});
  codec("bf16", coded<compress::bf16>{});
  codec("block_int8", coded<compress::block_int8>{});
  codec("dynamic_int8", coded<compress::dynamic_int8>{});
  codec("bits4", coded<compress::bits<4>>{});
  codec("delta<4>, change", delta<4>{});
  codec("delta<2>, change", delta<2>{});
  codec("delta<4, 8, int8>, change", delta<4, 8, compress::block_int8>{});
  codec("delta<4>, gradient", delta<4>{}, direction::backward);
  codec("subspace, rank 64", subspace<>{{.rank = 64}});
  codec("subspace, rank 10", subspace<>{{.rank = 10}});
  codec("subspace<bf16>, rank 10", subspace<compress::bf16>{{.rank = 10}});
  codec("adaptive_top_k, 10", adaptive_top_k<>{{.ratio = 10}});
  codec("adaptive_top_k, 100", adaptive_top_k<>{{.ratio = 100}});
  codec("adaptive_top_k<fp16>, 100", adaptive_top_k<compress::fp16>{{.ratio = 100}});
}
