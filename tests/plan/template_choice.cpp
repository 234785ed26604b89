// SPDX-License-Identifier: Apache-2.0
#include <causeway/plan/template_choice.hpp>

#include <causeway/core/rng.hpp>

#include <algorithm>
#include <cstddef>
#include <limits>
#include <numeric>
#include <vector>

#include "support/catch.hpp"

using namespace causeway;
using plan::template_set;

namespace {

template_set random_set(rng& draw, std::size_t smallest, std::size_t count, std::size_t failures) {
  template_set set{failures, {}};
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t n = smallest + i;
    set.templates.push_back({n, {}, 4 + double(draw.uniform()), (4 + double(draw.uniform())) / double(n)});
  }
  return set;
}

/// The least time over all ways to give out `left` micro-batches to the pipelines from `i` on.
double best_split(const template_set& set, const std::vector<std::size_t>& sizes, std::size_t i, std::size_t left) {
  if (i == sizes.size()) return left == 0 ? 0 : std::numeric_limits<double>::infinity();
  double best = std::numeric_limits<double>::infinity();
  for (std::size_t n = 0; n <= left; ++n) {
    best = std::min(best, std::max(set.of(sizes[i]).seconds(n), best_split(set, sizes, i + 1, left - n)));
  }
  return best;
}

/// Over all ways to make at least f + 1 pipelines of `peers`.
double best_choice(const template_set& set, std::vector<std::size_t> sizes, std::size_t peers, std::size_t batches) {
  if (peers == 0) {
    return sizes.size() > set.failures ? best_split(set, sizes, 0, batches) : std::numeric_limits<double>::infinity();
  }
  double best = std::numeric_limits<double>::infinity();
  const std::size_t most = sizes.empty() ? set.largest() : sizes.back();
  for (std::size_t s = set.smallest(); s <= std::min(most, peers); ++s) {
    auto more = sizes;
    more.push_back(s);
    best = std::min(best, best_choice(set, more, peers - s, batches));
  }
  return best;
}

}  // namespace

TEST_CASE("the pipelines and their shares are the quickest of all", "[plan][fast]") {
  rng draw{43};
  for (int round = 0; round < 60; ++round) {
    const std::size_t smallest = 1 + draw.below(3);
    const template_set set = random_set(draw, smallest, 1 + draw.below(4), draw.below(3));
    const std::size_t least = (set.failures + 1) * smallest;
    const std::size_t peers = least + draw.below(6), batches = draw.below(8);
    const double best = best_choice(set, {}, peers, batches);
    const auto choice = plan::choose_templates(set, peers, batches);
    if (best == std::numeric_limits<double>::infinity()) {
      REQUIRE_FALSE(choice);
      continue;
    }
    REQUIRE(choice);
    REQUIRE(choice->seconds == Approx(best));
    REQUIRE(std::accumulate(choice->sizes.begin(), choice->sizes.end(), std::size_t{0}) == peers);
    REQUIRE(choice->sizes.size() > set.failures);
    REQUIRE(choice->micro_batches.size() == choice->sizes.size());
    REQUIRE(std::accumulate(choice->micro_batches.begin(), choice->micro_batches.end(), std::size_t{0}) == batches);
  }
}

TEST_CASE("given pipelines share a batch so that the last ends as early as can be", "[plan][fast]") {
  rng draw{47};
  for (int round = 0; round < 60; ++round) {
    const template_set set = random_set(draw, 2, 4, 0);
    std::vector<std::size_t> sizes(1 + draw.below(4));
    for (auto& s : sizes) s = 2 + draw.below(4);
    const std::size_t batches = draw.below(12);
    const auto choice = plan::split_batch(set, sizes, batches);
    REQUIRE(choice.seconds == Approx(best_split(set, sizes, 0, batches)).margin(1e-12));
    REQUIRE(std::accumulate(choice.micro_batches.begin(), choice.micro_batches.end(), std::size_t{0}) == batches);
  }
}

TEST_CASE("too few peers are told how many it takes", "[plan][fast]") {
  rng draw{1};
  const template_set set = random_set(draw, 3, 4, 1);
  const auto choice = plan::choose_templates(set, 5, 8);
  REQUIRE_FALSE(choice);
  CHECK(choice.error().code == errc::out_of_memory);
  CHECK(choice.error().message.find("when 6 are there") != std::string::npos);
}
