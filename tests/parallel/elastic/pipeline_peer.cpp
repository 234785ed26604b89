// SPDX-License-Identifier: Apache-2.0
#include <causeway/parallel/elastic/pipeline_peer.hpp>

#include <causeway/comm/every_step.hpp>
#include <causeway/io/memory_storage.hpp>
#include <causeway/optim/adamw.hpp>
#include <causeway/train/trainer.hpp>

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "support/pipelines.hpp"

using namespace causeway;
using parallel::pipeline_peer;

namespace {

/// A membership of one peer, whose attempts are those that it is told to give.
struct lone_group final : parallel::step_group {
  [[nodiscard]] std::uint64_t identity() const override { return 5; }
  [[nodiscard]] const parallel::step_record& record() const override { return now; }
  result<parallel::step_attempt> begin_attempt() override { return next; }
  result<void> propose(const parallel::step_record& w) override {
    now = w;
    return {};
  }
  result<void> failed(const error& why) override { return why; }
  void finished_by_others() override {}
  void begin_exchange_again() override {}
  void exchange_by(parallel::exchange_hooks) override {}
  void expects(std::uint32_t) override {}
  [[nodiscard]] const parallel::exchange_state& state() const override { return kept; }

  net::any_transport transport{};
  parallel::step_attempt next{&transport, 1, 0, no_deadline, 1};
  parallel::step_record now{};
  parallel::exchange_state kept{};
};

const stage::layout alone{{{{{5, {0, 2}}}, 1}}};

auto small_trainer() {
  auto model = nn::gpt::create(support::small_gpt(2), kernels::cpu_backend{1}, nn::model_part{{0, 2}});
  return make_trainer(std::move(*model), environment{}, trainer_options{}, comm::every_step<>{}, optim::adamw{});
}

}  // namespace

TEST_CASE("pipeline peer: without a membership, or with a schedule of several chunks, it says what to give it",
          "[parallel][fast]") {
  lone_group group;
  CHECK(pipeline_peer{&group}.check("it", 4, 1));
  CHECK(pipeline_peer{}.check("it", 4, 1).error().text().find("a member of all peers") != std::string::npos);
  CHECK(pipeline_peer{&group}.check("it", 0, 1).error().code == errc::invalid_argument);
  CHECK(pipeline_peer{&group}.check("it", 4, 2).error().code == errc::unsupported);
  CHECK(pipeline_peer::check_ends("it", true, true));
  CHECK(pipeline_peer::check_ends("it", false, false));
  CHECK(pipeline_peer::check_ends("it", true, false).error().code == errc::invalid_argument);
  CHECK(pipeline_peer::check_ends("it", false, true).error().code == errc::invalid_argument);
}

TEST_CASE("pipeline peer: where replicas take steps of their own, what counts of a block is how far an exchange moved it",
          "[parallel][fast]") {
  lone_group group;
  auto t = small_trainer();
  std::vector<float> shared(t.context().parameters().size(), 3.0F);
  group.kept.rows = [&] { return std::vector<parameter_row>{{{shared}}}; };
  pipeline_peer peer{&group};
  peer.begin(t.model().part(), 2, {}, "blocks");
  group.now = {.step = 3, .state = 30};
  peer.held.assigned({0, 2}, 0);
  peer.held.moved_to(30, {});
  const auto squares = [&] { return peer.held.described(group.now, 2).squares; };
  CHECK(squares() == std::vector<double>{0, 0});
  peer.note_shared(t.context());
  for (float& v : parallel::blocks_in(std::span{shared}, t.model().parameters().segments(), {1, 2}, 2)) v += 0.5F;
  peer.note_movement(t.context());
  const auto length = static_cast<double>(t.model().block_length(1));
  REQUIRE(squares().size() == 2);
  CHECK(squares()[0] == 0);
  CHECK(squares()[1] == Approx(length / 4));
  peer.note_movement(t.context());  // nothing was exchanged since
  CHECK(squares()[1] == Approx(length / 4));
}

TEST_CASE("pipeline peer: it knows another attempt from the one that is under way", "[parallel][fast]") {
  lone_group group;
  pipeline_peer peer{&group};
  CHECK(peer.begin_attempt().value());
  CHECK_FALSE(peer.begin_attempt().value());
  ++group.next.attempt;
  CHECK(peer.begin_attempt().value());
  ++group.next.round;
  CHECK(peer.begin_attempt().value());
  peer.sums = 2;
  CHECK_FALSE(peer.begin_attempt().value());
  CHECK(peer.sums == 0);  // as on all of its peers
  const auto one = peer.named(pipeline_peer::sums_channel), two = peer.named(pipeline_peer::sums_channel, 1);
  CHECK(one.step != two.step);
  CHECK(one.channel != peer.named(pipeline_peer::inventory_channel).channel);
}

TEST_CASE("pipeline peer: it waits for what more peers would mend, and says so once", "[parallel][fast]") {
  lone_group group;
  pipeline_peer peer{&group};
  std::vector<std::string> lines;
  const log_sink log{[&](severity level, std::string_view text) {
    CHECK(level == severity::waiting);  // by which the launcher knows it
    lines.emplace_back(text);
  }};
  for (int i = 0; i < 3; ++i) {
    CHECK(peer.wait_for_more(log, "step 4", parallel::missing({2, 3})).code == errc::cancelled);
  }
  REQUIRE(lines.size() == 1);
  CHECK(lines.front().find("step 4 waits: ") == 0);
  CHECK(peer.wait_for_more(log, "step 4", fail(errc::diverged, "loss", "")).code == errc::diverged);
}

TEST_CASE("pipeline peer: it is ready for an assignment whose blocks it holds at the state of the run",
          "[parallel][fast]") {
  lone_group group;
  pipeline_peer peer{&group};
  peer.begin(nn::model_part{{0, 2}}, 2, {}, "");
  peer.layout = alone;
  CHECK(peer.take_assignment(2, nn::model_part{{0, 2}}));
  REQUIRE(peer.assignment != nullptr);
  CHECK_FALSE(peer.take_assignment(2, nn::model_part{{0, 1}}));
  group.now = {.step = 1, .state = 8};  // the run has taken a step without it
  CHECK_FALSE(peer.take_assignment(2, nn::model_part{{0, 2}}));
  peer.layout = {};
  CHECK(peer.take_assignment(2, nn::model_part{{0, 1}}));  // spare
  CHECK(peer.assignment == nullptr);
}

TEST_CASE("pipeline peer: a run whose blocks nobody has goes back to what is saved", "[parallel][fast]") {
  lone_group group;
  auto t = small_trainer();
  auto& ctx = t.context();
  const io::memory_storage disk;
  std::uint64_t due = 30;
  if (GENERATE(false, true)) group.kept.alike = {std::as_writable_bytes(std::span{&due, 1})};
  pipeline_peer peer{&group};
  peer.begin(nn::model_part{{0, 2}}, 2, io::any_storage{disk}, "blocks");
  REQUIRE(peer.begin_attempt());
  const auto own = peer.described(2, log_sink{});
  REQUIRE(peer.gather(peer.named(pipeline_peer::inventory_channel), own, {1, 2, 1}, peer.how(ctx)));
  peer.layout = alone;
  REQUIRE(peer.take_assignment(2, nn::model_part{{0, 2}}));

  const auto none = peer.go_back(ctx, "step 1", parallel::missing({0, 2}));
  REQUIRE_FALSE(none);
  CHECK(none.error().code == errc::cancelled);  // nothing is saved: it waits

  group.now = {.step = 3, .state = 77};
  peer.held.assigned({0, 2}, 0);
  peer.held.moved_to(77, {});
  REQUIRE(peer.save_blocks(ctx));
  const auto saved = group.now;
  group.now = {.step = 5, .state = 99};
  due = 1;
  const auto alike = peer.go_back(ctx, "step 6", parallel::missing({0, 2}));
  REQUIRE(alike);
  CHECK(*alike == !group.kept.alike.empty());
  CHECK(due == (*alike ? 30 : 1));
  CHECK(group.now == saved);
  CHECK(peer.held.described(group.now, 2).holds_all({0, 2}));
}
