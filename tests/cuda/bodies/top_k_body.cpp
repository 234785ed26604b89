// SPDX-License-Identifier: Apache-2.0
#include <causeway/cuda/bodies/top_k_body.hpp>

#include <causeway/compress/top_k.hpp>

#include "cuda/body_support.hpp"
#include "cuda/thread_group.hpp"
#include "support/catch.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <utility>
#include <vector>

namespace {

using namespace causeway;
using compress::index_form;

struct selected {
  std::vector<std::uint32_t> kept;
  std::vector<std::byte> bytes;
  friend bool operator==(const selected&, const selected&) = default;
};

selected on_cpu(const compress::top_k& choice, const compress::message_context& ctx, const std::vector<float>& x) {
  selected s;
  s.bytes.resize(choice.most_bytes(ctx, x.size()));
  s.bytes.resize(choice.select(ctx, x, s.kept, s.bytes));
  return s;
}

/// What top_k.hpp does.
selected here(const compress::top_k& choice, const compress::message_context& ctx, const std::vector<float>& x,
              int threads) {
  selected s;
  s.kept.resize(choice.most_kept(ctx, x.size()));
  s.bytes.resize(choice.most_bytes(ctx, x.size()));
  std::vector<std::uint32_t> words((s.bytes.size() + 3) / 4);
  cuda::top_k_body body{.row = x.data(), .kept = s.kept.data(), .words = words.data()};
  for (const compress::chunk_grid& grid : choice.grids(ctx, x.size())) {
    body.grid = grid;
    body.layout = choice.layout(grid);
    causeway_test::with_group(threads, [&](auto& g) {
      for (std::size_t chunk = 0; chunk < grid.count(); ++chunk) body.run<1>(g, static_cast<std::int64_t>(chunk));
    });
    body.kept += grid.count() * body.layout.count;
    body.first_bit += 8 * compress::bytes_of_bits(grid.count() * body.layout.bits);
  }
  const auto written = std::as_bytes(std::span{words});
  std::copy_n(written.begin(), s.bytes.size(), s.bytes.begin());
  return s;
}

/// Ordinary values, runs of equal magnitudes, zeros, and what is not finite.
std::vector<float> row(std::size_t n) {
  auto x = causeway_test::numbers(n, 3);
  for (std::size_t i = n / 3; i < n / 2; ++i) x[i] = i % 2 == 0 ? 1.0F : -1.0F;
  for (std::size_t i = n / 2; i < n * 5 / 8; ++i) x[i] = 0.0F;
  x[n / 4] = std::numeric_limits<float>::infinity();
  x[n - 1] = std::numeric_limits<float>::quiet_NaN();
  return x;
}

}  // namespace

TEST_CASE("cuda top-k: coordinates and bytes are the CPU's, for every form of indices", "[cuda][fast]") {
  thread_pool pool{1};
  for (const auto form : {index_form::packed, index_form::bitmask, index_form::elias_fano, index_form::smallest}) {
    for (const std::uint32_t k : {1U, 5U, 50U, 100U}) {
      const compress::top_k choice{{.k = k, .chunks = {.run = 100}, .indices = form}};
      for (const std::size_t n : {1U, 7U, 100U, 1234U}) {
        const auto x = row(n);
        const compress::message_context ctx{.pool = pool};
        const selected expected = on_cpu(choice, ctx, x);
        CHECK(here(choice, ctx, x, 1) == expected);
        CHECK(here(choice, ctx, x, 3) == expected);
      }
    }
  }
}

TEST_CASE("cuda top-k: tiles of matrices are the CPU's, whole and cut short", "[cuda][fast]") {
  thread_pool pool{1};
  const std::vector<compress::matrix_range> matrices{{10, 64, 96}, {10 + 64 * 96, 37, 50}};
  const std::size_t n = 10 + 64 * 96 + 37 * 50 + 21;
  const auto x = row(n);
  const compress::message_context ctx{.pool = pool, .matrices = matrices};
  for (const std::uint32_t side : {8U, 16U, 64U}) {
    const compress::top_k choice{{.k = 3, .chunks = {.side = side}}};
    const selected expected = on_cpu(choice, ctx, x);
    CHECK(here(choice, ctx, x, 1) == expected);
    CHECK(here(choice, ctx, x, 5) == expected);
  }
}
