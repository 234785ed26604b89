// SPDX-License-Identifier: Apache-2.0
#include <causeway/comm/hub_rules.hpp>

#include <causeway/collective/norm_aggregators.hpp>
#include <causeway/comm/async_parameter_server.hpp>
#include <causeway/compress/block_int8.hpp>

#include "support/simulated_runs.hpp"

using namespace causeway;

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
