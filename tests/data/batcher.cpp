// SPDX-License-Identifier: Apache-2.0
#include <causeway/data/batcher.hpp>

#include "support/catch.hpp"

#include <map>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

namespace cw = causeway;
namespace data = causeway::data;

namespace {

// Token n is n, so that a token says where it came from.
data::token_stream counting(std::int64_t count) {
  std::vector<std::int32_t> v(static_cast<std::size_t>(count));
  std::iota(v.begin(), v.end(), 0);
  return data::token_stream{v};
}

data::batcher make(std::int64_t tokens, std::int64_t context, std::int64_t global_batch, bool shift = true) {
  return data::batcher::make(counting(tokens), {.context_length = context, .seed = 4, .shift_grid = shift}, global_batch)
      .value();
}

// First tokens of the sequences of a batch, having checked inputs and targets.
std::vector<std::int32_t> firsts(const cw::batch& b, std::int64_t context) {
  REQUIRE(b.tokens() == b.sequences * context);
  REQUIRE(b.targets.size() == b.inputs.size());
  std::vector<std::int32_t> starts;
  for (std::size_t i = 0; i < b.inputs.size(); ++i) {
    const std::size_t column = i % static_cast<std::size_t>(context);
    if (column == 0) starts.push_back(b.inputs[i]);
    REQUIRE(b.inputs[i] == starts.back() + static_cast<std::int32_t>(column));
    REQUIRE(b.targets[i] == b.inputs[i] + 1);
  }
  return starts;
}

}  // namespace

TEST_CASE("batcher: all peers together see each window of an epoch exactly once", "[data][fast]") {
  struct setting {
    std::int64_t tokens, context, global_batch;
    std::uint32_t peers;
  };
  for (const setting s : {setting{1001, 8, 1, 1}, setting{1001, 8, 12, 4}, setting{2003, 16, 7, 3}, setting{999, 10, 5, 8},
                          setting{40, 8, 8, 2}, setting{10'000, 8, 64, 4}}) {
    for (const bool shift : {false, true}) {
      std::vector<data::batcher> peers(s.peers, make(s.tokens, s.context, s.global_batch, shift));
      const auto windows = static_cast<std::uint64_t>(peers[0].order().windows());
      std::map<std::pair<std::uint64_t, std::int32_t>, int> seen;  // (epoch, first token) -> how often
      std::uint64_t used = 0;
      while (used < 3 * windows) {
        for (std::uint32_t p = 0; p < s.peers; ++p) {
          for (const std::int32_t first : firsts(peers[p].next(p, s.peers), s.context)) ++seen[{used++ / windows, first}];
        }
      }
      // Whole epochs: every window once. The epoch that was begun: none twice.
      std::map<std::uint64_t, std::uint64_t> distinct;
      for (const auto& [key, count] : seen) {
        REQUIRE(count == 1);
        ++distinct[key.first];
      }
      for (std::uint64_t epoch = 0; epoch < 3; ++epoch) REQUIRE(distinct[epoch] == windows);
    }
  }
}

TEST_CASE("batcher: the global batch does not depend on how many peers share it", "[data][fast]") {
  constexpr std::int64_t global_batch = 12;
  auto alone = make(3000, 8, global_batch);
  for (const std::uint32_t peers : {2U, 3U, 4U, 5U, 12U}) {
    auto shared = make(3000, 8, global_batch);
    alone.seek(0);
    for (int step = 0; step < 100; ++step) {
      std::vector<std::int32_t> joined;
      for (std::uint32_t p = 0; p < peers; ++p) {
        const auto part = firsts(shared.current(p, peers), 8);
        if (global_batch % peers == 0) REQUIRE(part.size() == static_cast<std::size_t>(global_batch / peers));
        joined.insert(joined.end(), part.begin(), part.end());
      }
      shared.advance();
      REQUIRE(joined == firsts(alone.next(), 8));
    }
  }
}

TEST_CASE("batcher: a run resumed at any step goes on as if it had not stopped", "[data][fast]") {
  constexpr int steps = 60;
  auto whole = make(700, 8, 6);
  std::vector<std::vector<std::int32_t>> expected;
  std::vector<std::uint64_t> cursors;
  for (int step = 0; step < steps; ++step) {
    cursors.push_back(whole.cursor());
    expected.push_back(firsts(whole.next(1, 2), 8));
  }
  CHECK(whole.epochs() > 4.0);
  for (std::size_t from = 0; from < steps; ++from) {
    auto resumed = make(700, 8, 6);
    // The whole state is what serialize shows to the archive: one integer.
    const auto load = [&](std::uint64_t& cursor) { cursor = cursors[from]; };
    resumed.serialize(load);
    for (std::size_t step = from; step < steps; ++step) REQUIRE(firsts(resumed.next(1, 2), 8) == expected[step]);
  }
}

TEST_CASE("batcher: a step that is tried again gets the same batch", "[data][fast]") {
  auto b = make(700, 8, 6);
  (void)b.next();
  const auto first = firsts(b.current(0, 2), 8);
  CHECK(firsts(b.current(0, 2), 8) == first);
  b.advance();
  CHECK(firsts(b.current(0, 2), 8) != first);
  CHECK(b.cursor() == 12);
}

TEST_CASE("batcher: another number of sequences per step loses and repeats nothing", "[data][fast]") {
  auto b = make(2000, 8, 6);
  auto straight = make(2000, 8, 1);
  std::vector<std::int32_t> got;
  for (const std::int64_t size : {6, 3, 9, 1, 8}) {
    b.set_global_batch(size);
    const auto part = firsts(b.next(), 8);
    got.insert(got.end(), part.begin(), part.end());
  }
  for (const std::int32_t first : got) CHECK(firsts(straight.next(), 8) == std::vector{first});
}

TEST_CASE("batcher: samples by number are those of the run", "[data][fast]") {
  data::batcher batches = make(999, 10, 4);
  const std::vector<std::uint64_t> numbers{7, 3, 200};
  const auto picked = firsts(batches.of(numbers), 10);
  REQUIRE(picked.size() == numbers.size());
  for (std::size_t i = 0; i < numbers.size(); ++i) CHECK(picked[i] == firsts(batches.at(numbers[i], 1), 10)[0]);
}

TEST_CASE("batcher: refuses no sequences and too few tokens", "[data][fast]") {
  CHECK(data::batcher::make(counting(100), {.context_length = 8}, 0).error().code == cw::errc::invalid_argument);
  CHECK(data::batcher::make(counting(8), {.context_length = 8}, 1).error().code == cw::errc::bad_text);
}

TEST_CASE("validation windows: fixed, spread over the tokens, not overlapping", "[data][fast]") {
  auto windows = data::validation_windows::make(counting(1001), 10, 7).value();
  REQUIRE(windows.size() == 7);
  const auto all = firsts(windows.at(0, 7), 10);
  CHECK(all == std::vector<std::int32_t>{0, 140, 280, 420, 570, 710, 850});
  CHECK(firsts(windows.at(2, 3), 10) == std::vector<std::int32_t>(all.begin() + 2, all.begin() + 5));
  CHECK(windows.at(3, 0).sequences == 0);
  auto few = data::validation_windows::make(counting(31), 10, 50).value();
  CHECK(firsts(few.at(0, few.size()), 10) == std::vector<std::int32_t>{0, 10, 20});
}

TEST_CASE("validation windows: too few tokens is an error with a remedy", "[data][fast]") {
  for (const std::int64_t tokens : {0, 1, 10}) {
    const auto outcome = data::validation_windows::make(counting(tokens), 10, 5);
    REQUIRE_FALSE(outcome);
    CHECK(outcome.error().code == cw::errc::bad_text);
    CHECK(outcome.error().message.find("larger part") != std::string::npos);
  }
  CHECK(data::validation_windows::make(counting(100), 10, 0).error().code == cw::errc::invalid_argument);
}
