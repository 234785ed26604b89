// SPDX-License-Identifier: Apache-2.0
#include <causeway/parallel/swarm/swarm_messages.hpp>

#include <causeway/core/rng.hpp>

#include <limits>
#include <vector>

#include "support/catch.hpp"
#include "support/spoilt_messages.hpp"

namespace causeway::parallel::swarm_wire {
namespace {

std::vector<message> one_of_each() {
  batch_set some{70};
  some.add(3);
  some.add(69);
  status s;
  s.stage = 2, s.serving = 1, s.turn = 8, s.term = 3, s.queued = 4, s.seconds = 0.5;
  s.sums[0] = {8, 1.5, {2.5, 0.5}};
  s.part = 8, s.committed = 7;
  s.decided = {7, 0.0, {3.5}};
  s.module_path = 3, s.on_path = 1, s.paths = 4;
  return {s,
          claim{5},
          report{5, 8, some, batch_set{70}, {1.0, 2.0}},
          order{8,
                69,
                1ULL << 40U,
                {11, 0, 12},
                {stage_need::finished, stage_need::usual, stage_need::again},
                {5, 5, 1ULL << 40U}},
          tensor_announcement{8, 69, 1, 77, 5},
          contributed{8, 69, 0.25, 3.5},
          verdict{8, 1, 10.0, some},
          addresses{{"a:1", "b:2"}},
          move_request{5, 1},
          refusal{8, 69, 11},
          probe{77},
          echo{77},
          delays{{{11, 0.04}, {12, 0.5}}},
          table_request{8, 3},
          table_piece{8, 3, 2, {1.0F, -2.0F}}};
}

constexpr std::uint64_t run = 99;

}  // namespace

TEST_CASE("swarm messages: each comes back from its bytes", "[parallel][fast]") {
  for (const message& m : one_of_each()) {
    const auto bytes = encode(run, m);
    const auto back = decode(run, bytes);
    REQUIRE(back);
    CHECK(back->index() == m.index());
    CHECK(encode(run, *back) == bytes);
  }
}

TEST_CASE("swarm messages: paths through modules have equal parts of each batch, in their order", "[parallel][fast]") {
  for (std::uint32_t m = 0; m < 24; ++m) CHECK(module_path_of(m, 24, 8, 2) == (m % 8 < 4 ? 0 : 1));  // of three batches
  for (std::uint32_t m = 0; m < 4; ++m) CHECK(module_path_of(m, 4, 8, 2) == m / 2);                  // of less than one
  CHECK(module_path_of(0, 1, 8, 2) == 0);
  CHECK(module_path_of(most_micro_batches - 1, most_micro_batches, most_micro_batches, 4096) == 4095);
}

TEST_CASE("swarm messages: turns are in the order of steps, with a step's evaluations before it", "[parallel][fast]") {
  CHECK(training_turn(6) < evaluation_turn(7, 0));
  CHECK(evaluation_turn(7, 0) < evaluation_turn(7, most_evaluations - 1));
  CHECK(evaluation_turn(7, most_evaluations - 1) < training_turn(7));
  CHECK(evaluation_turn(7, most_evaluations - 1) < local_turn(7));
  CHECK(local_turn(7) < training_turn(7));
  CHECK(trains(training_turn(7)));
  CHECK(trains(local_turn(7)));
  CHECK(is_local(local_turn(7)));
  CHECK_FALSE(is_local(training_turn(7)));
  CHECK_FALSE(trains(evaluation_turn(7, most_evaluations - 1)));
  CHECK(step_of(training_turn(7)) == 7);
  CHECK(step_of(evaluation_turn(7, 3)) == 7);
}

TEST_CASE("swarm messages: cut, lengthened, of another run or kind they are refused", "[parallel][fast]") {
  for (const message& m : one_of_each()) {
    auto bytes = encode(run, m);
    for (std::size_t n = 0; n < bytes.size(); ++n) CHECK_FALSE(decode(run, std::span{bytes}.first(n)));
    const auto other = decode(run + 1, bytes);
    REQUIRE_FALSE(other);
    CHECK(other.error().code == errc::wrong_run);
    auto longer = bytes;
    longer.push_back(std::byte{0});
    CHECK_FALSE(decode(run, longer));
    bytes[9] = std::byte{200};
    CHECK_FALSE(decode(run, bytes));
  }
}

TEST_CASE("swarm messages: numbers that are none and sizes beyond the limits are refused", "[parallel][fast]") {
  CHECK_FALSE(decode(run, encode(run, contributed{1, 2, std::numeric_limits<double>::quiet_NaN(), 0})));
  CHECK_FALSE(decode(run, encode(run, verdict{1, 1, std::numeric_limits<double>::infinity()})));
  CHECK_FALSE(decode(run, encode(run, tensor_announcement{1, most_micro_batches, 0, 0})));
  CHECK_FALSE(decode(run, encode(run, order{8, 1, 5, {11, 12}, std::vector(2, stage_need::usual), {4, 3}})));
  CHECK_FALSE(decode(run, encode(run, order{8, 1, 5, {11, 12}, std::vector(2, stage_need::usual), {4, 6}})));
  CHECK_FALSE(decode(run, encode(run, move_request{1, most_stages})));
  CHECK_FALSE(decode(run, encode(run, delays{{{11, -1.0}}})));
  CHECK_FALSE(decode(run, encode(run, refusal{1, most_micro_batches, 1})));
  CHECK_FALSE(decode(run, encode(run, report{1, 1, batch_set{70}, batch_set{71}, {}})));
  CHECK_FALSE(decode(run, encode(run, report{1, 1, batch_set{70}, batch_set{70}, {1.0}})));
  status s;
  s.decided = {1, 0.0, std::vector(most_asked, 1.0)};
  CHECK(decode(run, encode(run, s)));
  s.decided.asked.push_back(1.0);
  CHECK_FALSE(decode(run, encode(run, s)));
}

TEST_CASE("swarm messages: a tensor's data is under its sender's number, in the epoch of its step", "[parallel][fast]") {
  const net::message_id id = tensor_announcement{training_turn(4), 1, 0, 9}.data();
  CHECK((id.channel == collective::channels::activations && id.epoch == 5 && id.step == 9));
  CHECK(epoch_of(evaluation_turn(5, 0)) > id.epoch);
}

TEST_CASE("swarm messages: no bytes make the decoder read or write elsewhere", "[parallel][fast]") {
  support::check_spoilt(
      one_of_each(), [](const message& m) { return encode(run, m); }, [](const auto& bytes) { return decode(run, bytes); });
}

}  // namespace causeway::parallel::swarm_wire
