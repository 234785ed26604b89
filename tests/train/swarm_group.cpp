// SPDX-License-Identifier: Apache-2.0
#include <causeway/train/swarm_group.hpp>

#include <causeway/io/memory_storage.hpp>
#include <causeway/net/memory_transport.hpp>
#include <causeway/train/impl/swarm_group.ipp>

#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "support/catch.hpp"

namespace causeway {
namespace {

/// A membership of one peer that notes what is asked of it.
struct lone_stage final : run_group {
  [[nodiscard]] std::uint64_t identity() const override { return 1; }
  result<void> open(shared_state state, thread_pool&) override {
    held = std::move(state);
    return {};
  }
  result<round_entry> enter(std::uint64_t samples, std::uint64_t) override {
    entered_with = samples;
    if (replaces) held.adopted({});
    return round_entry{.transport = &transport, .round = 3, .parent = 4, .share = 0.25, .attempt = ++attempts};
  }
  result<void> exchanged(std::span<const float>) override {
    ++exchanges;
    return {};
  }
  result<verdict> decide(const result<void>&, bool) override { return judged; }
  void leave() override { left = true; }
  [[nodiscard]] std::uint64_t round() const override { return 2; }
  [[nodiscard]] std::uint64_t parent() const override { return 0; }
  [[nodiscard]] std::uint64_t state_hash() const override { return hash; }
  [[nodiscard]] std::uint64_t contributed() const override { return 0; }
  [[nodiscard]] std::vector<std::uint64_t> draw(std::uint64_t, std::uint64_t) override { return {}; }
  [[nodiscard]] bool budget_used() const override { return false; }

  net::any_transport transport{};
  shared_state held;
  std::uint64_t entered_with = 0, hash = 0;
  int exchanges = 0;
  std::uint32_t attempts = 0;
  bool replaces = false;
  bool left = false;
  verdict judged = verdict::commit;
};

/// Does what swarm_group asks a peer for, as the test wants it.
struct scripted_swarm {
  [[nodiscard]] const parallel::swarm_options& options() const noexcept { return o; }
  void committed(bool adopted) { commits.push_back(adopted); }
  result<void> complete(const std::function<bool()>&) {
    ++completions;
    return {};
  }
  [[nodiscard]] bool is_waited_for() { return false; }
  [[nodiscard]] parallel::swarm_holding holding() { return {}; }
  result<parallel::swarm_part_taken> take_part(std::span<const parallel::swarm_holding> all, std::size_t self) {
    REQUIRE(self < all.size());
    own = all[self];
    if (missing) return fail(errc::cancelled, "stage 0", "micro-batches are missing");
    return parallel::swarm_part_taken{
        .weights = std::vector(all.size(), 1.0), .result_at = result_at, .result = {}, .gives_up = gives_up};
  }
  result<void> exchange_means(bool, parallel::gradient_place) {
    means = true;
    return {};
  }
  result<parallel::swarm_sum> keep_sum(std::span<const float> sum, std::span<const float> gradient) {
    given.assign(sum.begin(), sum.end());
    normed.assign(gradient.begin(), gradient.end());
    return parallel::swarm_sum{7, 4.0, gradients};
  }
  [[nodiscard]] time_point now() { return {}; }
  void throw_away() { ++thrown_away; }
  void restore_sum(const parallel::swarm_sum& kept) {
    restored.emplace_back(kept.step, std::vector<float>{kept.values.begin(), kept.values.end()});
  }
  result<std::vector<double>> all_summed() { return std::vector{9.0}; }
  void agreed(std::span<const double> all) { norm_squares = all.front(); }
  std::span<std::byte> decision(std::size_t most) {
    decided.resize(1 + most);
    return std::as_writable_bytes(std::span{decided});
  }
  [[nodiscard]] std::uint64_t contributed() { return 5; }
  [[nodiscard]] bool run_ends() { return ends; }
  void meets_in_groups() { in_groups = true; }
  void meanwhile(std::function<void()>) {}
  result<void> shares_paths(std::uint32_t, std::function<void(std::uint32_t)>,
                            std::function<void(std::uint32_t, std::span<float>)>) {
    return {};
  }
  [[nodiscard]] std::optional<std::uint32_t> asked_to_move() { return to; }

  parallel::swarm_options o;
  std::vector<float> gradients{1, 2, 3}, given, normed;
  std::vector<std::pair<std::uint64_t, std::vector<float>>> restored;
  std::optional<std::uint32_t> to, result_at;
  parallel::swarm_holding own;  // as others saw it last
  double norm_squares = 0;
  std::vector<double> decided;
  std::vector<bool> commits;
  int completions = 0, thrown_away = 0;
  bool missing = false, ends = false, gives_up = false, in_groups = false, means = false;
};

using scripted_group = basic_swarm_group<scripted_swarm>;

struct group_of_one {
  std::shared_ptr<lone_stage> stage = std::make_shared<lone_stage>();
  std::shared_ptr<scripted_swarm> swarm = std::make_shared<scripted_swarm>();
  scripted_group group{stage, swarm};
  thread_pool pool{1};
  group_of_one() { REQUIRE(group.open({}, pool)); }
};

}  // namespace

TEST_CASE("swarm group: an exchange begins when the stage is complete, and sums", "[train][fast]") {
  group_of_one g;
  const auto entry = g.group.enter(100, 0);
  REQUIRE(entry);
  CHECK(g.swarm->completions == 1);
  CHECK(g.stage->entered_with == 6);  // never nothing: a round without contributions would not be exchanged
  CHECK(entry->share == 1);
  CHECK(entry->round == 3);
}

TEST_CASE("swarm group: what stages decided by belongs to what the stage's peers hold alike", "[train][fast]") {
  group_of_one asks, asks_nothing;
  std::vector<float> parameters{1, 2, 3};
  shared_state state{{std::as_writable_bytes(std::span{parameters})}, {}};
  REQUIRE(asks_nothing.group.open(state, asks_nothing.pool));
  CHECK(asks_nothing.stage->held.parts.size() == 1);
  state.stage_sums = 2;
  REQUIRE(asks.group.open(state, asks.pool));
  REQUIRE(asks.stage->held.parts.size() == 2);
  CHECK(asks.stage->held.parts[1].data() == std::as_bytes(std::span{asks.swarm->decided}).data());
  CHECK(asks.swarm->decided.size() == 3);
}

TEST_CASE("swarm group: peers that take local steps begin where the last exchange ended, whatever a checkpoint has",
          "[train][fast]") {
  for (const std::uint32_t local_steps : {0U, 3U}) {
    group_of_one g;
    g.swarm->o.local_steps = local_steps;
    int begun = 0;
    REQUIRE(g.group.open({.parts = {}, .adopted = [&](std::span<const float>) { ++begun; }}, g.pool));
    CHECK(begun == (local_steps > 0 ? 1 : 0));
  }
}

TEST_CASE("swarm group: peers that have parameters of their own are said to meet in groups", "[train][fast]") {
  group_of_one g;
  CHECK_FALSE(g.swarm->in_groups);
  std::vector<std::byte> own(4);
  REQUIRE(g.group.open({.parts = {}, .adopted = {}, .own = {own}}, g.pool));
  CHECK(g.swarm->in_groups);
}

TEST_CASE("swarm group: peers that take local steps say how much is behind a row, and which attempt it was sent in",
          "[train][fast]") {
  group_of_one g;
  CHECK(g.group.contributed() == UINT64_MAX);
  g.swarm->o.local_steps = 3;
  REQUIRE(g.group.enter(100, 20));
  CHECK(g.swarm->own.samples == 100);
  CHECK(g.swarm->own.row_of == 0);
  CHECK(g.group.contributed() == 100);
  REQUIRE(g.group.exchanged({}));
  REQUIRE(g.group.enter(100, 24));
  CHECK(g.swarm->own.row_of == 1);
  CHECK(g.swarm->own.sum_of == 1);
  g.swarm->result_at = 0;  // what it has goes on to others: nothing is sent
  REQUIRE(g.group.enter(100, 24));
  REQUIRE(g.group.exchanged({}));
  REQUIRE(g.group.enter(100, 24));
  CHECK(g.swarm->own.row_of == 2);
  CHECK(g.swarm->own.sum_of == 1);
  REQUIRE(g.group.decide({}, true));
  REQUIRE(g.group.enter(80, 0));
  CHECK(g.swarm->own.samples == 80);
  CHECK(g.swarm->own.row_of == 0);
  CHECK(g.swarm->own.sum_of == 0);
}

TEST_CASE("swarm group: nothing is exchanged while micro-batches are missing", "[train][fast]") {
  group_of_one g;
  g.swarm->missing = true;
  const auto entry = g.group.enter(100, 0);
  REQUIRE_FALSE(entry);
  CHECK(entry.error().code == errc::cancelled);
}

TEST_CASE("swarm group: the step waits for all stages, and the norm is theirs", "[train][fast]") {
  group_of_one g;
  REQUIRE(g.group.enter(1, 0));
  REQUIRE(g.group.exchanged(g.swarm->gradients));
  CHECK(g.swarm->norm_squares == 9.0);
  CHECK(g.stage->exchanges == 1);
}

TEST_CASE("swarm group: with local steps all rows of an exchange are kept, one after the other", "[train][fast]") {
  group_of_one g;
  const std::vector<float> first{1, 2}, second{3};
  for (const std::uint32_t local_steps : {0U, 1U}) {
    g.swarm->o.local_steps = local_steps;
    CHECK(g.group.exchanges_at_once());  // nothing is under way during inner steps
    for (int attempt = 0; attempt < 2; ++attempt) {
      REQUIRE(g.group.enter(1, 0));
      g.group.received(first, nullptr);
      g.group.received(second, nullptr);
      REQUIRE(g.group.exchanged(second));
      CHECK(g.swarm->given == (local_steps > 0 ? std::vector<float>{1, 2, 3} : second));
    }
  }
}

TEST_CASE("swarm group: the run's last exchange is the one after its last step", "[train][fast]") {
  group_of_one g;
  g.swarm->o.local_steps = 1;
  for (const bool ends : {false, true}) {
    g.swarm->ends = ends;
    CHECK(g.group.run_ends() == ends);
    CHECK(g.group.enter(1, 0)->last == ends);
  }
}

TEST_CASE("swarm group: who has moved by what others have too begins the round anew", "[train][fast]") {
  group_of_one g;
  g.swarm->gives_up = true;
  g.stage->judged = verdict::retry;
  const auto entry = g.group.enter(1, 0);
  REQUIRE_FALSE(entry);
  CHECK(entry.error().code == errc::cancelled);
  const std::size_t before = g.swarm->commits.size();
  CHECK(g.group.decide(entry.error(), false).value() == verdict::commit);
  REQUIRE(g.swarm->commits.size() == before + 1);
  CHECK(g.swarm->commits.back());  // at the committed state
  g.swarm->gives_up = false;
  REQUIRE(g.group.enter(1, 0));
  CHECK(g.group.decide(fail(errc::timeout, "peer 1", "it is late"), false).value() == verdict::retry);
}

TEST_CASE("swarm group: a sum is on disk before other stages hear of it, and is there after a restart", "[train][fast]") {
  io::any_storage disk{io::memory_storage{}};
  std::vector<float> parameters(3);
  thread_pool pool{1};
  const auto open = [&](std::uint64_t state) {
    const auto stage = std::make_shared<lone_stage>();
    const auto swarm = std::make_shared<scripted_swarm>();
    stage->hash = state;
    scripted_group group{stage, swarm, disk, "stage-0"};
    REQUIRE(group.open({{std::as_writable_bytes(std::span{parameters})}, {}}, pool));
    if (state == 1) {
      REQUIRE(group.enter(1, 0));
      REQUIRE(group.exchanged(swarm->gradients));
    }
    return swarm->restored;
  };
  CHECK(open(1).empty());
  using kept = std::pair<std::uint64_t, std::vector<float>>;
  CHECK(open(1) == std::vector{kept{7, {1, 2, 3}}});
  CHECK(open(2) == std::vector{kept{7, {}}});  // of the step before the state that it has: only its norm is of use
  parameters.resize(4);
  CHECK(open(3).empty());  // of another model
}

TEST_CASE("swarm group: of a policy's means all that came of an exchange is on disk, with its attempt", "[train][fast]") {
  io::any_storage disk{io::memory_storage{}};
  const auto stage = std::make_shared<lone_stage>();
  const auto swarm = std::make_shared<scripted_swarm>();
  stage->hash = 77;
  thread_pool pool{1};
  std::vector<float> parameters(2);
  shared_state state{{std::as_writable_bytes(std::span{parameters})}, [](std::span<const float>) {}};
  state.exchange.divide = [](std::span<const parameter_segment>) { return result<void>{}; };
  {
    scripted_group group{stage, swarm, disk, "stage-0"};
    REQUIRE(group.open(state, pool));
    CHECK(swarm->means);
    REQUIRE(group.enter(1, 0));
    const std::vector<float> row{1, 2}, factors{3, 4, 5};
    group.received(row, nullptr);
    group.received(factors, nullptr);
    REQUIRE(group.exchanged(row));
    CHECK(swarm->given == std::vector<float>{1, 2, 3, 4, 5});
    CHECK(swarm->normed == row);
  }
  const std::uint32_t attempt = stage->attempts;
  scripted_group group{stage, swarm, disk, "stage-0"};
  REQUIRE(group.open(state, pool));
  REQUIRE(swarm->restored.size() == 1);
  CHECK(swarm->restored[0].second == std::vector<float>{1, 2, 3, 4, 5});
  REQUIRE(group.enter(1, 0));
  CHECK(swarm->own.sum_of == attempt);
  CHECK(swarm->own.row_of == 0);
}

TEST_CASE("swarm group: gradients of a step that others have finished are thrown away", "[train][fast]") {
  group_of_one g;
  g.stage->replaces = true;
  g.stage->judged = verdict::retry;
  const auto entry = g.group.enter(1, 0);
  REQUIRE_FALSE(entry);
  CHECK(g.group.decide(entry.error(), false).value() == verdict::commit);
  CHECK(g.group.decide(entry.error(), false).value() == verdict::retry);  // once
  CHECK(g.swarm->commits == std::vector<bool>{true, true});               // when it opened, and now
  g.stage->judged = verdict::commit;
  CHECK(g.group.decide({}, true).value() == verdict::commit);
  CHECK(g.swarm->commits.back() == false);  // its own step
}

TEST_CASE("swarm group: who is asked to move leaves its stage after a commit", "[train][fast]") {
  group_of_one g;
  REQUIRE(g.group.decide({}, true));
  CHECK_FALSE(g.stage->left);
  g.swarm->to = 2;
  REQUIRE(g.group.decide({}, true));
  CHECK(g.stage->left);
}

TEST_CASE("swarm group: who comes to values that are not finite goes back to the committed state, three times in a row",
          "[train][fast]") {
  group_of_one g;
  g.stage->judged = verdict::retry;
  const auto spoilt = [&] { return g.group.decide(fail(errc::non_finite, "swarm", "the loss is not finite"), false); };
  for (int i = 1; i <= 3; ++i) {
    const auto judged = spoilt();
    REQUIRE(judged);
    CHECK(*judged == verdict::commit);  // of the state that it had
    CHECK(g.swarm->thrown_away == i);
    CHECK(g.swarm->commits == std::vector(static_cast<std::size_t>(i) + 1, true));
  }
  const auto last = spoilt();
  REQUIRE(!last);
  CHECK(last.error().code == errc::non_finite);
  CHECK(last.error().text().find("lower the learning rate") != std::string::npos);
}

TEST_CASE("swarm group: nobody votes for parameters that are not finite", "[train][fast]") {
  std::vector<float> parameters{1, 2, 3};
  const auto stage = std::make_shared<lone_stage>();
  const auto swarm = std::make_shared<scripted_swarm>();
  scripted_group group{stage, swarm};
  thread_pool pool{1};
  REQUIRE(group.open({{std::as_writable_bytes(std::span{parameters})}, {}}, pool));
  CHECK(group.decide({}, true));
  parameters[1] = std::numeric_limits<float>::infinity();
  stage->judged = verdict::retry;
  const auto judged = group.decide({}, true);
  REQUIRE(!judged);  // there is no disk
  CHECK(judged.error().text().find("start it again") != std::string::npos);
  CHECK(swarm->thrown_away == 1);
}

}  // namespace causeway
