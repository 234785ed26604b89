// SPDX-License-Identifier: Apache-2.0
#include <causeway/policy/concepts.hpp>

#include <causeway/comm/every_step.hpp>
#include <causeway/fault/fail_stop.hpp>
#include <causeway/parallel/data_parallel.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

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

/// The four hooks, and what `Traits` say.
template <comm_traits Traits>
struct says {
  static constexpr std::string_view name = "says";
  static constexpr comm_traits traits = Traits;
  static constexpr std::uint32_t state_version = 1;
  result<void> start(auto&) { return {}; }
  result<void> before_inner_step(auto&) { return {}; }
  result<void> after_inner_step(auto&) { return {}; }
  result<void> finish(auto&) { return {}; }
  void serialize(auto&) {}
};

/// And all hooks that go with a trait.
template <comm_traits Traits>
struct says_and_does : says<Traits> {
  void shared(auto&) {}
  void adopt(auto&, std::span<const float>) {}
  result<void> catch_up(auto&) { return {}; }
  result<double> compute(auto&, const auto& pass) { return pass(); }
  bool replays() { return false; }
  result<void> replay(auto&) { return {}; }
  bool trains(auto&) { return true; }
  std::optional<index_range> part_of_batch() { return {}; }
  std::vector<std::size_t> parts_for(const std::vector<double>&) { return {}; }
  void stand_by(auto&) {}
  std::function<void()> meanwhile(auto&) { return {}; }
  result<void> meet_holders(auto&, const auto&) { return {}; }
  int turn_part() { return 0; }
  std::span<const float> followed() { return {}; }
  void count_step(auto&) {}
  result<void> admit(auto&) { return {}; }
  std::size_t paths() { return 0; }
  std::size_t regions() { return 0; }
  bool follow(auto&, std::optional<std::uint32_t>) { return false; }
  void parameters_of(std::uint32_t, std::span<float>) {}
  std::vector<parameter_row> block_rows() { return {}; }
  result<void> divide(auto&, std::span<const parameter_segment>) { return {}; }
  std::vector<std::span<std::byte>> memory() { return {}; }
  result<void> forget(auto&) { return {}; }
  bool exchanges_next() { return false; }
  std::optional<bool> row_waits() { return {}; }
  [[nodiscard]] says_and_does another() const { return {}; }
};

template <comm_traits Traits>
constexpr bool needs_hooks =
    HasCommunicationHooks<says<Traits>> && !CommunicationPolicy<says<Traits>> && CommunicationPolicy<says_and_does<Traits>>;

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

TEST_CASE("concepts: each trait with hooks of its own is no policy without them", "[policy][fast]") {
  STATIC_REQUIRE(CommunicationPolicy<says<comm_traits{}>>);
  STATIC_REQUIRE(needs_hooks<comm_traits{.tolerates = peers::elastic}>);
  STATIC_REQUIRE(needs_hooks<comm_traits{.moves_with_blocks = true}>);
  STATIC_REQUIRE(needs_hooks<comm_traits{.trains_paths = true}>);
  STATIC_REQUIRE(needs_hooks<comm_traits{.in_regions = true}>);
  STATIC_REQUIRE(needs_hooks<comm_traits{.looks_ahead = true}>);
  STATIC_REQUIRE(needs_hooks<comm_traits{.replays = true}>);
  STATIC_REQUIRE(needs_hooks<comm_traits{.draws_peers = true}>);
  STATIC_REQUIRE(needs_hooks<comm_traits{.divides_batches = true}>);
  STATIC_REQUIRE(needs_hooks<comm_traits{.talks_between = true}>);
  STATIC_REQUIRE(needs_hooks<comm_traits{.exchanges_gradients = true, .rows_in_parts = true}>);
  STATIC_REQUIRE(needs_hooks<comm_traits{.takes_turns = true}>);
}
