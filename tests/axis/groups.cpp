// SPDX-License-Identifier: Apache-2.0
#include <causeway/axis/groups.hpp>

#include <cmath>
#include <set>

#include "support/catch.hpp"

using namespace causeway;

namespace {

/// The groups of one exchange; checks that they are a partition that all peers agree on.
template <class G>
std::set<std::vector<net::peer_index>> groups_of(const G& g, std::uint64_t number, std::uint32_t peers) {
  std::set<std::vector<net::peer_index>> all;
  std::size_t members = 0;
  for (net::peer_index p = 0; p < peers; ++p) {
    const auto mine = g.members({.seed = 5, .number = number, .self = p, .peers = peers});
    CHECK(std::is_sorted(mine.begin(), mine.end()));
    CHECK(std::find(mine.begin(), mine.end(), p) != mine.end());
    if (all.insert(mine).second) members += mine.size();
  }
  CHECK(members == peers);
  return all;
}

/// Peers' values after each exchange replaces them by the mean of their group.
template <class G>
std::vector<double> mixed(G g, std::vector<double> x, std::uint64_t exchanges) {
  const auto peers = static_cast<std::uint32_t>(x.size());
  for (std::uint64_t number = 0; number < exchanges; ++number) {
    for (const auto& group : groups_of(g, number, peers)) {
      double mean = 0;
      for (const auto p : group) mean += x[p] / static_cast<double>(group.size());
      for (const auto p : group) x[p] = mean;
    }
    g.formed({.seed = 5, .number = number, .self = 0, .peers = peers});
  }
  return x;
}

double spread(const std::vector<double>& x) {
  return *std::max_element(x.begin(), x.end()) - *std::min_element(x.begin(), x.end());
}

std::vector<double> ramp(std::size_t peers) {
  std::vector<double> x(peers);
  for (std::size_t i = 0; i < peers; ++i) x[i] = static_cast<double>(i * i % 17);
  return x;
}

}  // namespace

TEST_CASE("groups: all peers are one group", "[axis][fast]") { CHECK(groups_of(axis::all_peers{}, 3, 5).size() == 1); }

TEST_CASE("groups: random groups have the size that was asked for, the last one what is left over", "[axis][fast]") {
  CHECK(groups_of(axis::random_groups{2}, 0, 8).size() == 4);
  CHECK(groups_of(axis::random_groups{2}, 0, 9).size() == 4);
  CHECK(groups_of(axis::random_groups{3}, 0, 2).size() == 1);
  CHECK(groups_of(axis::random_groups{2}, 0, 8) != groups_of(axis::random_groups{2}, 1, 8));
  CHECK(axis::random_groups{1}.check(4).error().code == errc::invalid_argument);
}

TEST_CASE("groups: one exchange in r random groups leaves (r-1)/(N-1) of the variance", "[axis][fast]") {
  // E2: equal groups of 16 peers, r = 4; the mean over many draws.
  constexpr std::uint32_t peers = 16;
  std::vector<double> x = ramp(peers);
  double mean = 0;
  for (const double v : x) mean += v / peers;
  const auto variance = [&](const std::vector<double>& v) {
    double sum = 0;
    for (const double a : v) sum += (a - mean) * (a - mean);
    return sum;
  };
  double ratio = 0;
  constexpr int draws = 4000;
  for (int d = 0; d < draws; ++d) {
    auto y = x;
    const axis::random_groups g{4};
    for (net::peer_index p = 0; p < peers; ++p) {
      const auto group = g.members({.seed = 9, .number = static_cast<std::uint64_t>(d), .self = p, .peers = peers});
      y[p] = 0;
      for (const auto q : group) y[p] += x[q] / 4;
    }
    ratio += variance(y) / variance(x) / draws;
  }
  CHECK(ratio == Approx(3.0 / 15.0).epsilon(0.02));
}

TEST_CASE("groups: a full grid gives the exact mean after as many exchanges as it has axes", "[axis][fast]") {
  CHECK(spread(mixed(axis::grid{4, 3}, ramp(64), 2)) > 1e-3);
  CHECK(spread(mixed(axis::grid{4, 3}, ramp(64), 3)) < 1e-12);
  CHECK(spread(mixed(axis::grid{2, 4}, ramp(16), 4)) < 1e-12);
  // And again with the places that the members took: three more exchanges from other values.
  auto g = axis::grid{4, 3};
  for (std::uint64_t n = 0; n < 3; ++n) g.formed({.seed = 5, .number = n, .self = 0, .peers = 64});
  CHECK(spread(mixed(g, ramp(64), 3)) < 1e-12);
}

TEST_CASE("groups: a grid with empty places mixes all the same", "[axis][fast]") {
  CHECK(spread(mixed(axis::grid{4, 2}, ramp(13), 12)) < 1e-2);
  CHECK(axis::grid(1, 2).check(4).error().code == errc::invalid_argument);
}

TEST_CASE("groups: keys that shift give the exact mean, too", "[axis][fast]") {
  CHECK(spread(mixed(axis::key_groups{2, 2}, ramp(16), 2)) < 1e-12);
  CHECK(spread(mixed(axis::key_groups{4, 2}, ramp(64), 3)) < 1e-12);
  CHECK(spread(mixed(axis::key_groups{2, 1}, ramp(11), 14)) < 1e-2);
  CHECK(axis::key_groups(31, 1).check(4).error().code == errc::invalid_argument);
}
