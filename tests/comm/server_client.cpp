// SPDX-License-Identifier: Apache-2.0
#include <causeway/comm/server_client.hpp>

#include <causeway/comm/async_parameter_server.hpp>
#include <causeway/optim/nesterov.hpp>

#include "support/simulated_runs.hpp"

using namespace causeway;

TEST_CASE("server client: clients and their hub pass the asynchronous conformance suite", "[comm][fast]") {
  SECTION("defaults, slow and fast clients") {
    support::check_asynchronous_policy([] { return comm::async_parameter_server{axis::every{3}}; },
                                       {.speeds = {1, 0.5, 0.9}});
  }
  SECTION("all are waited for") {
    support::check_asynchronous_policy(
        [] {
          return comm::async_parameter_server{axis::every{3}, axis::quorum{.least = 3}, axis::outer<optim::nesterov>{0.7F}};
        },
        {.speeds = {1, 0.5, 0.9}}, true);
  }
}
