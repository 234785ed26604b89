// SPDX-License-Identifier: Apache-2.0
#include <causeway/parallel/elastic/gathered_steps.hpp>

#include <cstdint>
#include <vector>

#include "support/catch.hpp"

using namespace causeway;
using parallel::exchange_share;
using parallel::gathered_steps;

namespace {

struct lone_group final : parallel::step_group {
  [[nodiscard]] std::uint64_t identity() const override { return 5; }
  [[nodiscard]] const parallel::step_record& record() const override { return now; }
  result<parallel::step_attempt> begin_attempt() override { return parallel::step_attempt{}; }
  result<void> propose(const parallel::step_record&) override { return {}; }
  result<void> failed(const error& why) override { return why; }
  void finished_by_others() override {}
  void begin_exchange_again() override {}
  void exchange_by(parallel::exchange_hooks) override {}
  void expects(std::uint32_t) override {}
  [[nodiscard]] const parallel::exchange_state& state() const override { return kept; }

  parallel::step_record now{.step = 6, .state = 60, .updates = 2};
  parallel::exchange_state kept{};
};

struct one_peer {
  one_peer() {
    group.kept.round_samples = 10;
    group.kept.begin_anew = [this] { ++given_up; };
    peer.group = &group;
    peer.layout = {{{{{5, {0, 2}}, {7, {2, 4}}}, 4}}};
  }
  [[nodiscard]] std::vector<exchange_share> said(const gathered_steps& by) const {
    return {exchange_share{.gathered = by.name(group.now)}};
  }

  lone_group group;
  parallel::pipeline_peer peer{};
  int given_up = 0;
};

}  // namespace

TEST_CASE("gathered steps: a round has as many as bring the samples to the target", "[parallel][fast]") {
  one_peer p;
  gathered_steps g;
  CHECK(g.next(p.group.now) == 6);
  CHECK(g.name(p.group.now) == 0);
  CHECK_FALSE(g.enough_with(p.peer, 6, 4, false));
  CHECK_FALSE(g.enough_with(p.peer, 6, 4, false));  // asked again, of the next range of blocks
  CHECK(g.next(p.group.now) == 7);
  CHECK_FALSE(g.enough_with(p.peer, 7, 5, false));
  CHECK(g.next(p.group.now) == 8);
  const auto before = g.name(p.group.now);
  CHECK(g.enough_with(p.peer, 8, 1, false));
  CHECK(g.enough_with(p.peer, 8, 1, false));  // asked again when the exchange is tried again
  CHECK(g.next(p.group.now) == 8);
  CHECK(g.name(p.group.now) != before);  // the policy has this step, too

  gathered_steps ends;
  CHECK(ends.enough_with(p.peer, 6, 4, true));
  p.group.kept.round_samples = 0;  // every step
  CHECK(ends.enough_with(p.peer, 6, 4, false));
}

TEST_CASE("gathered steps: peers go on if all have the same sum, of the layout that they have", "[parallel][fast]") {
  one_peer p;
  gathered_steps g, none;
  CHECK(none.goes_on(p.peer, p.said(none)));
  CHECK_FALSE(g.enough_with(p.peer, 6, 4, false));
  CHECK(g.goes_on(p.peer, p.said(g)));
  CHECK_FALSE(g.goes_on(p.peer, p.said(none)));
  CHECK_FALSE(none.goes_on(p.peer, p.said(g)));

  gathered_steps more = g;
  CHECK_FALSE(more.enough_with(p.peer, 7, 4, false));
  CHECK_FALSE(more.goes_on(p.peer, p.said(g)));

  p.peer.layout.replicas[0].assignments[1].peer = 8;
  CHECK_FALSE(g.goes_on(p.peer, p.said(g)));  // the lost peer's part is gone
  CHECK(none.goes_on(p.peer, p.said(none)));
  g.give_up(p.peer);
  CHECK(p.given_up == 1);
  CHECK(g.next(p.group.now) == 6);
  g.give_up(p.peer);
  CHECK(p.given_up == 1);

  gathered_steps whole;  // a round of one step, which the policy has in the sum
  CHECK(whole.enough_with(p.peer, 6, 10, false));
  CHECK(whole.goes_on(p.peer, p.said(whole)));
  p.peer.layout.replicas[0].micro_batches = 3;
  CHECK_FALSE(whole.goes_on(p.peer, p.said(whole)));
  whole.give_up(p.peer);
  CHECK(p.given_up == 2);
}

TEST_CASE("gathered steps: what was laid out otherwise meanwhile is given up", "[parallel][fast]") {
  one_peer p;
  gathered_steps g, none;
  CHECK_FALSE(g.enough_with(p.peer, 6, 4, false));
  const auto other = p.said(g);
  const stage::layout before = p.peer.layout;
  g.laid_out(before);
  CHECK(g.goes_on(p.peer, other));
  g.laid_out({{{{{5, {0, 1}}, {7, {1, 4}}}, 4}}});
  g.laid_out(before);
  CHECK_FALSE(g.goes_on(p.peer, other));  // of a peer that had no part in that
  CHECK_FALSE(g.goes_on(p.peer, p.said(g)));
  CHECK(g.next(p.group.now) == 7);
  none.laid_out(before);
  CHECK(none.goes_on(p.peer, p.said(none)));
}

TEST_CASE("gathered steps: on top of another state they are none", "[parallel][fast]") {
  one_peer p;
  gathered_steps g;
  CHECK_FALSE(g.enough_with(p.peer, 6, 9, false));
  p.group.now = {.step = 8, .state = 61, .updates = 3};
  CHECK(g.next(p.group.now) == 8);
  CHECK(g.name(p.group.now) == 0);
  CHECK_FALSE(g.enough_with(p.peer, 8, 9, false));  // the first of another round
  CHECK(g.next(p.group.now) == 9);
}

TEST_CASE("gathered steps: a state is saved where a round passes a multiple of the interval", "[parallel][fast]") {
  one_peer p;
  gathered_steps g;
  const auto after_round_of = [&](std::uint64_t steps, std::uint64_t last) {
    p.group.now = {.step = last - steps, .state = last, .updates = 2};
    for (std::uint64_t s = 1; s < steps; ++s) CHECK_FALSE(g.enough_with(p.peer, p.group.now.step + s - 1, 1, false));
    p.group.now = {.step = last, .state = last + 100, .updates = 3};
    g.taken();
    return g.is_due(p.group.now, last, 4);
  };
  CHECK(after_round_of(3, 9));         // 8
  CHECK_FALSE(after_round_of(2, 11));  // 10, 11
  CHECK(after_round_of(1, 12));
  CHECK_FALSE(after_round_of(1, 13));
  CHECK_FALSE(g.is_due(p.group.now, 14, 4));  // gathered
  CHECK_FALSE(g.is_due(p.group.now, 13, 0));
  p.group.now.updates = 1;
  CHECK(g.is_due(p.group.now, 13, 4));
}
