// SPDX-License-Identifier: Apache-2.0
#include <causeway/data/k_means.hpp>

#include <vector>

#include "nn/golden.hpp"
#include "support/catch.hpp"

using namespace causeway;
namespace data = causeway::data;

namespace {

/// `each` rows around each of the places, which are far apart; row i belongs to place i % places.
std::vector<float> blobs(const std::vector<std::vector<float>>& places, std::size_t each, std::uint64_t seed) {
  rng random{seed};
  std::vector<float> rows;
  for (std::size_t i = 0; i < each * places.size(); ++i) {
    for (const float x : places[i % places.size()]) rows.push_back(x + 0.1F * random.normal());
  }
  return rows;
}

double worst_distance(const data::feature_rows& rows, const data::feature_rows& centres) {
  double worst = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    double best = 1e30;
    for (std::size_t c = 0; c < centres.size(); ++c) {
      double d = 0;
      for (std::size_t j = 0; j < rows.width; ++j) {
        d += std::pow(static_cast<double>(rows[i][j]) - static_cast<double>(centres[c][j]), 2);
      }
      best = std::min(best, d);
    }
    worst = std::max(worst, best);
  }
  return std::sqrt(worst);
}

}  // namespace

TEST_CASE("k_means: from given centres, the clusters are numpy's", "[data][fast]") {
  const auto g = testing::read_golden("dipaco/routing");
  const data::feature_rows rows{g.numbers.at("rows"), 5};
  const auto centres = data::moved_centres(rows, g.numbers.at("first"), 1000);
  CHECK(testing::relative_difference(centres, g.numbers.at("centres")) < 1e-6);
  // One step alone is somewhere else.
  CHECK(testing::relative_difference(data::moved_centres(rows, g.numbers.at("first"), 1), g.numbers.at("centres")) > 1e-2);
}

TEST_CASE("k_means: finds clusters that lie apart, whatever the seed", "[data][fast]") {
  const auto values = blobs({{0, 0}, {5, 0}, {0, 5}, {5, 5}, {10, 0}}, 30, 1);
  const data::feature_rows rows{values, 2};
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const auto centres = data::k_means(rows, 5, {.seed = seed});
    REQUIRE(centres);
    CAPTURE(seed);
    CHECK(worst_distance(rows, {*centres, 2}) < 0.6);
  }
}

TEST_CASE("k_means: an equal seed gives equal bits, another one another start", "[data][fast]") {
  const auto values = blobs({{0, 0, 0}, {1, 0, 2}}, 40, 2);
  const data::feature_rows rows{values, 3};
  CHECK(*data::k_means(rows, 4, {.seed = 7}) == *data::k_means(rows, 4, {.seed = 7}));
  CHECK(data::spread_centres(rows, 4, 7) != data::spread_centres(rows, 4, 8));
}

TEST_CASE("k_means: no centre stays without a row, even where rows are equal", "[data][fast]") {
  // The third centre is nearest to nobody; the row that is farthest from its own becomes its cluster.
  const std::vector<float> values{0, 1, 10, 11, 30};
  const auto centres = data::moved_centres({values, 1}, {0, 11, 1000}, 50);
  CHECK(centres == std::vector<float>{0.5F, 10.5F, 30});
  const std::vector<float> alike(6, 2.0F);
  CHECK(*data::k_means({alike, 1}, 3) == std::vector<float>{2, 2, 2});
}

TEST_CASE("k_means: a product has a centre for each way to choose one of each level", "[data][fast]") {
  // Columns 0 and 1 say which version of the first level, columns 2 to 4 which of the second.
  std::vector<std::vector<float>> places;
  for (const float a : {0.0F, 8.0F}) {
    for (const float b : {0.0F, 8.0F, 16.0F}) places.push_back({a, a, b, b, b});
  }
  const auto values = blobs(places, 20, 3);
  const data::feature_rows rows{values, 5};
  const std::vector<std::uint32_t> versions{2, 3};
  const auto centres = data::product_k_means(rows, versions);
  REQUIRE(centres);
  const data::feature_rows all{*centres, 5};
  REQUIRE(all.size() == 6);
  CHECK(worst_distance(rows, all) < 0.7);
  for (std::size_t path = 0; path < 6; ++path) {  // the last level changes first
    for (std::size_t j = 0; j < 2; ++j) CHECK(all[path][j] == all[path / 3 * 3][j]);
    for (std::size_t j = 2; j < 5; ++j) CHECK(all[path][j] == all[path % 3][j]);
  }
  const std::vector<std::uint32_t> one{4};
  CHECK(*data::product_k_means(rows, one, {.seed = 5}) == *data::k_means(rows, 4, {.seed = mix(5, 0)}));
}

TEST_CASE("k_means: refuses more clusters than rows, and more levels than columns", "[data][fast]") {
  const std::vector<float> values{1, 2, 3, 4};
  CHECK(data::k_means({values, 2}, 3).error().code == errc::invalid_argument);
  CHECK(data::k_means({values, 2}, 0).error().code == errc::invalid_argument);
  const std::vector<std::uint32_t> three{1, 1, 1}, none;
  CHECK(data::product_k_means({values, 2}, three).error().code == errc::invalid_argument);
  CHECK(data::product_k_means({values, 2}, none).error().code == errc::invalid_argument);
}
