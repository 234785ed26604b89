// SPDX-License-Identifier: Apache-2.0
#include <causeway/policy/concepts.hpp>

#include <causeway/comm/every_step.hpp>
#include <causeway/fault/fail_stop.hpp>
#include <causeway/parallel/data_parallel.hpp>

#include "support/catch.hpp"

using namespace causeway;

namespace {

struct misspelt {
  static constexpr std::string_view name = "misspelt";
  static constexpr comm_traits traits{};
  static constexpr std::uint32_t state_version = 1;
  result<void> start(auto&) { return {}; }
  result<void> before_inner_step(auto&) { return {}; }
  result<void> after_inner_stp(auto&) { return {}; }
  result<void> finish(auto&) { return {}; }
  void serialize(auto&) {}
};

struct stateless : comm::every_step<> {
  void serialize(auto&) = delete;
};

}  // namespace

TEST_CASE("concepts: shipped policies are what they say and nothing else", "[policy][fast]") {
  STATIC_REQUIRE(CommunicationPolicy<comm::every_step<>>);
  STATIC_REQUIRE(!ParallelismPolicy<comm::every_step<>>);
  STATIC_REQUIRE(!FaultPolicy<comm::every_step<>>);
  STATIC_REQUIRE(ParallelismPolicy<parallel::data_parallel>);
  STATIC_REQUIRE(FaultPolicy<fault::fail_stop>);
}

TEST_CASE("concepts: a misspelt hook or a missing serialize is no policy", "[policy][fast]") {
  STATIC_REQUIRE(!CommunicationPolicy<misspelt>);
  STATIC_REQUIRE(!CommunicationPolicy<stateless>);
  STATIC_REQUIRE(!CommunicationPolicy<int>);
}
