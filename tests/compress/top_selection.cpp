// SPDX-License-Identifier: Apache-2.0
#include <causeway/compress/top_selection.hpp>

#include "compress/codec_checks.hpp"
#include "support/catch.hpp"

#include <algorithm>
#include <numeric>

using namespace causeway;
using compress::chunk_grid;
using compress::detail::top_selection;

namespace {

/// What must be found, the slow way.
std::vector<std::uint32_t> by_sorting(const std::vector<float>& x, std::size_t k) {
  std::vector<std::uint32_t> order(x.size());
  std::iota(order.begin(), order.end(), 0U);
  std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return std::abs(x[a]) > std::abs(x[b]); });
  order.resize(k);
  std::sort(order.begin(), order.end());
  return order;
}

chunk_grid one_run(std::size_t size) { return {0, size, 1, static_cast<std::uint32_t>(size), 1, 1}; }

}  // namespace

TEST_CASE("top selection: lanes that reach a value", "[compress][fast]") {
  std::vector<std::int32_t> v(16, 5);
  CHECK(compress::detail::lanes_reaching(v.data(), 5) == 0xFFFF);
  CHECK(compress::detail::lanes_reaching(v.data(), 6) == 0);
  for (std::size_t lane = 0; lane < 16; ++lane) {
    v.assign(16, -1);
    v[lane] = 7;
    CHECK(compress::detail::lanes_reaching(v.data(), 7) == 1U << lane);
  }
}

TEST_CASE("top selection: a selection does not depend on what was selected before", "[compress][fast]") {
  const float sizes[] = {1, 1.1F, 1e-6F, 1e6F, 0, 0, 1, 0.99F, 1e30F, 1e-40F, 1e-40F, 3};
  for (const std::uint32_t size : {150U, 1000U, 4096U}) {
    for (const auto level : support::simd_levels()) {
      for (const std::uint32_t k : {1U, 7U, 40U, 149U}) {
        top_selection selection{size, level};
        std::vector<std::uint32_t> top(k);
        for (std::size_t chunk = 0; chunk < std::size(sizes); ++chunk) {
          auto values = codec_checks::values(size, chunk);
          for (float& v : values) v *= sizes[chunk];
          selection.load(values.data(), one_run(size), 0);
          selection.find(k, top.data());
          CHECK(top == by_sorting(values, k));
        }
      }
    }
  }
}

TEST_CASE("top selection: a tile's indices count along its rows", "[compress][fast]") {
  const auto row = codec_checks::values(1000);
  const chunk_grid grid{.first = 40, .stride = 30, .rows = 6, .columns = 9, .down = 4, .across = 3};
  std::vector<float> tile;
  for (std::size_t r = 0; r < 6; ++r) {
    for (std::size_t c = 0; c < 9; ++c) tile.push_back(row[40 + 6 * 30 + 18 + r * 30 + c]);
  }
  top_selection selection{54, kernels::detect_simd_level()};
  std::vector<std::uint32_t> top(5);
  selection.load(row.data(), grid, 5);
  selection.find(5, top.data());
  CHECK(top == by_sorting(tile, 5));
}
