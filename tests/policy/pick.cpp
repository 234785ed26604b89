// SPDX-License-Identifier: Apache-2.0
#include <causeway/policy/pick.hpp>

#include <causeway/comm/every_step.hpp>
#include <causeway/comm/periodic.hpp>
#include <causeway/fault/fail_stop.hpp>
#include <causeway/optim/adamw.hpp>
#include <causeway/optim/sgd.hpp>
#include <causeway/parallel/data_parallel.hpp>

#include "support/catch.hpp"

using namespace causeway;
using detail::kind;

TEST_CASE("pick: policies reach their slots in any order and the rest are defaults", "[policy][fast]") {
  using first = detail::pick<kind::comm, comm::periodic<>, fault::fail_stop, comm::every_step<>, optim::sgd>;
  STATIC_REQUIRE(std::is_same_v<first, comm::every_step<>>);
  using other = detail::pick<kind::inner, optim::adamw, fault::fail_stop, comm::every_step<>, optim::sgd>;
  STATIC_REQUIRE(std::is_same_v<other, optim::sgd>);
  using missing = detail::pick<kind::parallel, parallel::data_parallel, optim::sgd>;
  STATIC_REQUIRE(std::is_same_v<missing, parallel::data_parallel>);
}

TEST_CASE("pick: what was given is taken by its slot, and what was not is made", "[policy][fast]") {
  comm::periodic<> averages{{.local_steps = 17}};
  fault::fail_stop stops;
  const auto taken = detail::take<kind::comm, comm::every_step<>, fault::fail_stop, comm::periodic<>&>(stops, averages);
  CHECK(taken.options().local_steps == 17);
  const auto made = detail::take<kind::inner, optim::adamw, fault::fail_stop, comm::periodic<>&>(stops, averages);
  STATIC_REQUIRE(std::is_same_v<decltype(made), const optim::adamw>);
}
