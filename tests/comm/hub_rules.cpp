// SPDX-License-Identifier: Apache-2.0
#include <causeway/comm/hub_rules.hpp>

#include <causeway/collective/norm_aggregators.hpp>
#include <causeway/comm/async_parameter_server.hpp>
#include <causeway/compress/block_int8.hpp>

#include "support/simulated_runs.hpp"

using namespace causeway;

TEST_CASE("hub rules: of more work than there can be counts a part, with its steps", "[comm][fast]") {
  namespace hubs = comm::detail;
  const auto counts = [](std::uint64_t samples, std::uint32_t steps, const hubs::push_limits& most) {
    const auto work = hubs::credible(most, {.samples = samples, .steps = steps}, 3);
    REQUIRE(work);
    return std::pair{work->samples, work->steps};
  };
  using pair = std::pair<std::uint64_t, std::uint32_t>;
  CHECK(counts(UINT64_MAX, 0, {}) == pair{UINT64_MAX, 0});
  CHECK(counts(40, 10, {.samples = 40, .batch = 4}) == pair{40, 10});
  CHECK(counts(80, 20, {.samples = 40, .batch = 4}) == pair{40, 10});
  CHECK(counts(80, 1, {.samples = 40}) == pair{40, 1});
  CHECK(counts(UINT64_MAX, UINT32_MAX, {.samples = 1}) == pair{1, 1});
  const auto refused = hubs::credible({.batch = 4}, {.samples = 41, .steps = 10}, 3);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().text().find("peer 3: its push claims 41 samples in 10 inner steps, of which each has at most 4") !=
        std::string::npos);
}

TEST_CASE("hub rules: a lossy codec, an aggregator and overlapped fragments pass the asynchronous conformance suite",
          "[comm][fast]") {
  // As far apart as they like, and in step with the slowest.
  const std::uint32_t most_ahead = GENERATE(axis::no_bound, 1U);
  support::check_asynchronous_policy(
      [most_ahead] {
        return comm::async_parameter_server{axis::staggered{4},
                                            axis::strided{2},
                                            axis::delayed{2, 0.5F},
                                            axis::quorum{.least = 2, .most_ahead = most_ahead},
                                            axis::push<compress::block_int8, collective::radial_directional>{},
                                            axis::error_feedback{},
                                            axis::star{1}};
      },
      {.speeds = {0.7, 1, 0.4}, .hubs = {1}});
}
