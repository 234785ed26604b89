// SPDX-License-Identifier: Apache-2.0
#include <causeway/train/common_cut.hpp>

#include <causeway/comm/periodic.hpp>
#include <causeway/io/memory_storage.hpp>

#include <vector>

#include "support/conformance.hpp"

using namespace causeway;
using namespace causeway::detail;

namespace {

using directory = io::checkpoint_directory<io::memory_storage>;

held_rounds held(std::vector<std::uint64_t> newest_first) {
  held_rounds rounds;
  rounds.fill(no_round);
  std::copy(newest_first.begin(), newest_first.end(), rounds.begin());
  return rounds;
}

// Checkpoints of every step, for a round of two steps.
void train(directory checkpoints, std::uint64_t steps) {
  auto t =
      make_trainer(support::test_model{support::quadratic{37}}, environment{}, {}, comm::periodic<>{{.local_steps = 2}});
  REQUIRE(t.start());
  for (std::uint64_t s = 0; s < steps; ++s) {
    const auto tokens = support::tokens_of(0, s);
    REQUIRE(t.step({tokens, tokens, 1}));
    const auto sections = save_state(t, io::archiver{});
    REQUIRE(sections);
    REQUIRE(checkpoints.save(t.context().step(), *sections));
  }
}

}  // namespace

TEST_CASE("common cut: lists what is held, oldest first, and says what it passed over", "[train][fast]") {
  io::memory_storage disk;
  int passed = 0;
  const auto count = [&](const error& why) { passed += why.code == errc::corrupt ? 1 : 0; };
  directory nothing{disk, "nothing"};
  CHECK(cuts_in(nothing, io::archiver{}, count).value().empty());

  directory checkpoints{disk, "peer", 5};
  disk.set_faults({.flip_write = 2, .flip_bit = 4000});
  train(checkpoints, 4);
  const auto cuts = cuts_in(checkpoints, io::archiver{}, count);
  REQUIRE(cuts);
  CHECK(passed == 1);
  REQUIRE(cuts->size() == 3);
  CHECK((*cuts)[0].step == 1);
  CHECK((*cuts)[1].step == 3);
  CHECK((*cuts)[2].step == 4);
  CHECK(newest_rounds(*cuts) == held({2, 1, 0}));
}

TEST_CASE("common cut: the newest rounds come first, and no more than fit", "[train][fast]") {
  CHECK(newest_rounds({}) == held({}));
  CHECK(newest_rounds({{1, 0}, {2, 1}, {3, 2}, {4, 3}, {5, 4}}) == held({4, 3, 2, 1}));
  CHECK(newest_rounds({{1, 0}, {2, 1}, {3, 1}, {4, 1}, {5, 2}, {6, 2}}) == held({2, 1, 0}));
}

TEST_CASE("common cut: the newest round that all hold", "[train][fast]") {
  CHECK(!newest_common({}));
  CHECK(!newest_common({held({}), held({})}));
  CHECK(newest_common({held({7, 6, 5})}) == 7U);
  CHECK(newest_common({held({7, 6, 5}), held({6, 5, 4}), held({8, 7, 6})}) == 6U);
  CHECK(newest_common({held({0}), held({1, 0})}) == 0U);
  CHECK(!newest_common({held({7, 6}), held({5, 4})}));
  CHECK(!newest_common({held({7, 6}), held({})}));
  CHECK(newest_common({held({3, 9}), held({9, 3})}) == 9U);  // whatever their order
}

TEST_CASE("common cut: each peer's newest checkpoint of that round", "[train][fast]") {
  const std::vector<cut> cuts{{3, 1}, {4, 1}, {6, 2}};
  const auto chosen = chosen_cut(cuts, {newest_rounds(cuts), held({1, 0})});
  REQUIRE(chosen);
  REQUIRE(*chosen);
  CHECK((*chosen)->step == 4);
  CHECK(!chosen_cut({}, {held({}), held({})}).value());
  CHECK(!chosen_cut({{0, 0}, {1, 0}}, {held({0}), held({})}).value());  // before anybody has exchanged anything
  const auto none = chosen_cut(cuts, {newest_rounds(cuts), held({})});
  REQUIRE(!none);
  CHECK(none.error().code == errc::diverged);
}
