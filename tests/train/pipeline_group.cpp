// SPDX-License-Identifier: Apache-2.0
#include <causeway/train/pipeline_group.hpp>

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "support/catch.hpp"

namespace causeway {
namespace {

/// A membership that does what it is told and notes what it is asked.
struct scripted_members final : run_group {
  [[nodiscard]] std::uint64_t identity() const override { return 5; }
  result<void> open(shared_state state, thread_pool&) override {
    shared = std::move(state);
    return {};
  }
  result<round_entry> enter(std::uint64_t samples, std::uint64_t) override {
    entered_with = samples;
    return round_entry{.transport = &transport, .round = 3, .parent = 4, .share = 0.25, .attempt = 17};
  }
  result<void> exchanged(std::span<const float>) override {
    if (called_off) return fail(errc::cancelled, "round", "the attempt was called off");
    return {};
  }
  result<verdict> decide(const result<void>& outcome, bool candidate) override {
    ++decided;
    voted = outcome.has_value() && candidate;
    if (others) std::copy_n(std::as_bytes(std::span{&*others, 1}).begin(), sizeof *others, shared.parts[0].begin());
    return judged;
  }
  [[nodiscard]] std::uint64_t round() const override { return 2; }
  [[nodiscard]] std::uint64_t parent() const override { return 9; }
  [[nodiscard]] std::uint64_t state_hash() const override { return 0; }
  [[nodiscard]] std::uint64_t contributed() const override { return 0; }
  [[nodiscard]] std::vector<std::uint64_t> draw(std::uint64_t, std::uint64_t) override { return {}; }
  [[nodiscard]] bool budget_used() const override { return false; }

  net::any_transport transport{};
  shared_state shared;
  std::uint64_t entered_with = 0;
  int decided = 0;
  bool called_off = false, voted = false;
  std::optional<parallel::step_record> others;  // what they voted for instead
  verdict judged = verdict::commit;
};

struct group_of_one {
  std::shared_ptr<scripted_members> members = std::make_shared<scripted_members>();
  pipeline_group group{members};
  thread_pool pool{1};
  std::vector<float> parameters = std::vector<float>(100);
  group_of_one() { REQUIRE(group.open({{std::as_writable_bytes(std::span{parameters})}, {}}, pool)); }
};

}  // namespace

TEST_CASE("pipeline group: peers share the record, not the parameters", "[train][fast]") {
  group_of_one c;
  REQUIRE(c.members->shared.parts.size() == 1);
  CHECK(c.members->shared.parts[0].size() == sizeof(parallel::step_record));
  const auto entry = c.group.enter(7, 0);
  REQUIRE(entry);
  CHECK(entry->transport->size() == 1);  // the communication policy is alone
  CHECK(c.members->entered_with == 0);
  const auto attempt = c.group.begin_attempt();
  REQUIRE(attempt);
  CHECK(attempt->round == 3);
  CHECK(attempt->attempt == 17);
  CHECK(c.members->entered_with == 1);  // never nothing: an empty round would not be tried
}

TEST_CASE("pipeline group: a step is voted on before it is made, and decided once", "[train][fast]") {
  group_of_one c;
  REQUIRE(c.group.propose({1, 11, 2.0}));
  CHECK(c.members->voted);
  CHECK(c.group.record() == parallel::step_record{1, 11, 2.0});
  CHECK(c.group.state_hash() == 11);
  CHECK(c.group.decide({}, true).value() == verdict::commit);
  CHECK(c.members->decided == 1);
}

TEST_CASE("pipeline group: what others voted for counts", "[train][fast]") {
  group_of_one c;
  c.members->others = parallel::step_record{1, 12, 2.5};
  REQUIRE(c.group.propose({1, 11, 2.0}));
  CHECK(c.group.record().state == 12);
}

TEST_CASE("pipeline group: what failed before a step is told to the membership, and is no vote", "[train][fast]") {
  group_of_one c;
  REQUIRE(c.group.failed(fail(errc::peer_lost, "peer 2", "is gone")));
  CHECK(c.members->decided == 1);
  CHECK_FALSE(c.members->voted);
}

TEST_CASE("pipeline group: what every attempt would come to ends the run", "[train][fast]") {
  for (const errc code : {errc::invalid_argument, errc::unsupported}) {
    group_of_one c;
    const error why = fail(code, "regroup", "9 blocks do not make 12 stages");
    const auto again = c.group.failed(why);
    REQUIRE_FALSE(again);
    CHECK(again.error().code == code);
    CHECK(c.group.decide(why, false).error().code == code);
    CHECK(c.members->decided == 0);
    REQUIRE(c.group.enter(7, 0));  // what the policy's exchange fails with may depend on who takes part
    c.members->judged = verdict::retry;
    CHECK(c.group.decide(why, false).value() == verdict::retry);
    CHECK(c.members->decided == 1);
  }
}

TEST_CASE("pipeline group: a failed attempt is tried again, unless others have finished the step", "[train][fast]") {
  group_of_one c;
  c.members->called_off = true;
  const auto outcome = c.group.propose({1, 11, 2.0});
  REQUIRE_FALSE(outcome);
  CHECK(c.group.record().step == 0);
  CHECK(c.group.decide(outcome, false).value() == verdict::retry);
  CHECK(c.members->decided == 1);
  c.group.finished_by_others();
  CHECK(c.group.decide(outcome, false).value() == verdict::commit);
  CHECK(c.members->decided == 1);  // the attempt that was begun goes on with the next step
}

TEST_CASE("pipeline group: what is alike on all peers is neither of their blocks nor what an exchange remembers of them",
          "[train][fast]") {
  const auto members = std::make_shared<scripted_members>();
  pipeline_group group{members};
  thread_pool pool{1};
  std::vector<float> parameters(100), velocity(100), factors(7);
  std::uint64_t rounds = 3;
  const auto bytes = [](auto& of) { return std::as_writable_bytes(std::span{of}); };
  shared_state state{{bytes(parameters), bytes(velocity), std::as_writable_bytes(std::span{&rounds, 1}), bytes(factors)},
                     [](std::span<const float>) {}};
  state.of_model = 1;
  state.exchange.rows = [&] {
    return std::vector<parameter_row>{{{std::span{velocity}.first(60), std::span{velocity}.subspan(60)}}};
  };
  state.exchange.divide = [](std::span<const parameter_segment>) { return result<void>{}; };
  state.exchange.memory = [&](std::size_t) { return std::vector<std::span<std::byte>>{bytes(factors)}; };
  REQUIRE(group.open(std::move(state), pool));
  REQUIRE(group.state().alike.size() == 1);
  CHECK(group.state().alike[0].data() == reinterpret_cast<std::byte*>(&rounds));

  group_of_one sums;  // of a policy whose state cannot move nothing is asked
  CHECK(sums.group.state().alike.empty());
}

TEST_CASE("pipeline group: what a round came to may be in the policy's rows, of which nothing is asked then",
          "[train][fast]") {
  group_of_one c;
  bool through = false, ends = false;
  c.group.exchange_by({[] { return parallel::exchange_entry{.kept = true, .last = true}; },
                       [&](std::span<const float>) {
                         through = true;
                         return result<void>{};
                       },
                       [&] { return ends; }});
  CHECK(c.group.exchanges_at_once());
  CHECK_FALSE(c.group.run_ends());
  ends = true;
  const auto entry = c.group.enter(7, 0);
  REQUIRE(entry);
  CHECK(entry->result_kept);
  CHECK(entry->result_at.has_value());
  CHECK(entry->last);
  CHECK(entry->transport->size() == 1);
  REQUIRE(c.group.exchanged({}));
  CHECK(through);
}

TEST_CASE("pipeline group: a gradient that came in several rows is given to the pipelines as one", "[train][fast]") {
  group_of_one c;
  std::vector<float> all;
  c.group.exchange_by({[] { return parallel::exchange_entry{}; },
                       [&](std::span<const float> mean) {
                         all.assign(mean.begin(), mean.end());
                         return result<void>{};
                       },
                       {}});
  const std::vector<float> ends{1, 2, 5}, middle{3, 4}, first{6};
  const std::vector<index_range> of_ends{{0, 2}, {4, 5}}, of_middle{{2, 4}}, of_first{{0, 1}};
  REQUIRE(c.group.enter(7, 0));
  c.group.received(ends, &of_ends);
  c.group.received(middle, &of_middle);
  REQUIRE(c.group.exchanged({}));
  CHECK(all == std::vector<float>{1, 2, 3, 4, 5});
  REQUIRE(c.group.enter(7, 0));  // another attempt, maybe of fewer blocks
  c.group.received(first, &of_first);
  REQUIRE(c.group.exchanged({}));
  CHECK(all == first);
  REQUIRE(c.group.exchanged(middle));
  CHECK(all == middle);
}

TEST_CASE("pipeline group: an exchange that begins again with another row does not end the attempt", "[train][fast]") {
  group_of_one c;
  c.group.begin_exchange_again();
  CHECK(c.group.decide(fail(errc::cancelled, "step", ""), false).value() == verdict::retry);
  CHECK(c.members->decided == 0);
  CHECK(c.group.decide(fail(errc::cancelled, "step", ""), false).value() == verdict::retry);
  CHECK(c.members->decided == 1);
}

}  // namespace causeway
