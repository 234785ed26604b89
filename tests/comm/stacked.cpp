// SPDX-License-Identifier: Apache-2.0
#include <causeway/comm/stacked.hpp>

#include <causeway/comm/rounds.hpp>
#include <causeway/optim/sgd.hpp>

#include "support/conformance.hpp"

using namespace causeway;

namespace {

/// Parameters every second step, pseudo-gradients every fourth.
auto both() {
  return comm::stacked{comm::rounds{axis::every{2}, axis::parameters{}, axis::gather_mean<>{}},
                       comm::rounds{axis::every{4}, axis::outer<optim::sgd>{1.0F}}};
}

}  // namespace

namespace stacked_tests {

/// Fails its first call of each hook, as an exchange would.
struct stumbles {
  static constexpr std::string_view name = "stumbles";
  static constexpr comm_traits traits{};
  static constexpr std::uint32_t state_version = 1;
  int* calls;
  result<void> start(auto&) { return {}; }
  result<void> before_inner_step(auto&) { return {}; }
  result<void> after_inner_step(auto&) {
    if (++*calls == 1) return fail(errc::timeout, "stumbles", "once");
    return {};
  }
  result<void> finish(auto&) { return {}; }
  void serialize(auto&) {}
};

struct counts {
  static constexpr std::string_view name = "counts";
  static constexpr comm_traits traits{};
  static constexpr std::uint32_t state_version = 1;
  int* calls;
  result<void> start(auto&) { return {}; }
  result<void> before_inner_step(auto&) { return {}; }
  result<void> after_inner_step(auto&) { return ++*calls, result<void>{}; }
  result<void> finish(auto&) { return {}; }
  void serialize(auto&) {}
};

template <class First>
constexpr peers with_diloco = comm::stacked<First, comm::rounds<>>::traits.tolerates;

}  // namespace stacked_tests

TEST_CASE("stacked: passes the conformance suite", "[comm][fast]") { support::check_communication_policy(both); }

TEST_CASE("stacked: a hook that failed goes on with the second policy", "[comm][fast]") {
  int first = 0, second = 0, context = 0;
  comm::stacked policy{stacked_tests::counts{&first}, stacked_tests::stumbles{&second}};
  CHECK_FALSE(policy.after_inner_step(context));
  CHECK(policy.after_inner_step(context));
  CHECK(first == 1);
  CHECK(second == 2);
  CHECK(policy.after_inner_step(context));
  CHECK(first == 2);
}

TEST_CASE("stacked: peers may come and go where both policies' exchanges fit under one record", "[comm][fast]") {
  using comm::rounds, stacked_tests::with_diloco;
  STATIC_REQUIRE(with_diloco<rounds<axis::parameters>> == peers::elastic);
  STATIC_REQUIRE(with_diloco<rounds<axis::gradient>> == peers::fixed);
  STATIC_REQUIRE(with_diloco<rounds<axis::delayed, axis::gather_mean<>>> == peers::elastic);
  STATIC_REQUIRE(with_diloco<rounds<axis::one_round_late, axis::gather_mean<>>> == peers::fixed);
  STATIC_REQUIRE(with_diloco<rounds<axis::parameters, axis::random_groups, axis::gather_mean<>>> == peers::fixed);
  STATIC_REQUIRE(with_diloco<stacked_tests::counts> == peers::fixed);
}

TEST_CASE("stacked: promises what both keep", "[comm][fast]") {
  using policy = decltype(both());
  STATIC_REQUIRE(policy::traits.identical_replicas);
  STATIC_REQUIRE(policy::traits.tolerates == peers::elastic);
  STATIC_REQUIRE_FALSE(policy::traits.exchanges_gradients);
  STATIC_REQUIRE(policy::traits.allows_late_steps);
  STATIC_REQUIRE(comm::stacked<comm::rounds<axis::gradient, axis::every>, comm::rounds<>>::traits.exchanges_gradients);
}
