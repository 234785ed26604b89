// SPDX-License-Identifier: Apache-2.0
#include <causeway/parallel/elastic/block_moves.hpp>

#include <causeway/net/memory_transport.hpp>

#include <cmath>
#include <cstdint>
#include <map>
#include <vector>

#include "stage/cluster_snapshots.hpp"
#include "support/catch.hpp"
#include "support/conformance.hpp"

namespace causeway {
namespace {

using parallel::block_contents;
using parallel::block_move;

}  // namespace

TEST_CASE("block moves: only what is missing moves, and holders share the work", "[parallel][fast]") {
  const auto g = snapshot_of(4, 2, {{1, {{0, 4}}}, {2, {{0, 4}}}, {3, {}}, {4, {{2, 3}}}});
  const stage::layout to{{{{{3, {0, 2}}, {4, {2, 4}}}, 1}, {{{1, {0, 4}}}, 1}}};
  const auto moves = parallel::moves_for(to, g);
  CHECK((moves == std::vector<block_move>{{0, 0, 2}, {1, 1, 2}, {3, 0, 3}}));
}

TEST_CASE("block moves: a block's place takes what stands before the first and behind the last", "[parallel][fast]") {
  parameter_store store;
  store.add("table", parameter_kind::embedding, 1, 16, -1);
  for (int b = 0; b < 3; ++b) store.add("block" + std::to_string(b), parameter_kind::matrix, 1, 16, b);
  store.add("head", parameter_kind::embedding, 1, 16, 3);
  store.allocate();
  const auto at = [&](std::int64_t first, std::int64_t last) {
    const auto span = parallel::blocks_in(store.values(), store.segments(), {first, last}, 3);
    return std::pair{span.data() - store.values().data(), span.size()};
  };
  CHECK((at(0, 1) == std::pair<std::ptrdiff_t, std::size_t>{0, 32}));
  CHECK((at(1, 2) == std::pair<std::ptrdiff_t, std::size_t>{32, 16}));
  CHECK((at(2, 3) == std::pair<std::ptrdiff_t, std::size_t>{48, 32}));
  CHECK((at(0, 3) == std::pair<std::ptrdiff_t, std::size_t>{0, 80}));
}

TEST_CASE("block moves: blocks arrive, and what is not finite is refused with the sender's name", "[parallel][fast]") {
  const bool poisoned = GENERATE(false, true);
  const std::vector<block_move> moves{{5, 0, 1}, {6, 0, 1}, {5, 0, 2}};
  const std::vector<net::peer_index> index_of{0, 1, 2};
  std::vector<result<void>> outcomes(3);
  std::vector<std::map<std::int64_t, block_contents>> inward(3);
  support::run_cluster(3, [&](std::uint32_t p, environment env) {
    std::map<std::int64_t, block_contents> outward;
    if (p == 0) outward = {{5, {1, 2, 3}}, {6, {4, poisoned ? NAN : 5.0F}}};
    if (p == 1) inward[p] = {{5, block_contents(3)}, {6, block_contents(2)}};
    if (p == 2) inward[p] = {{5, block_contents(3)}};
    outcomes[p] =
        parallel::move_blocks(env.transport, {.channel = 96}, no_deadline, moves, p, index_of, outward, inward[p]);
  });
  CHECK(outcomes[0]);
  CHECK(outcomes[2]);
  CHECK((inward[2].at(5) == block_contents{1, 2, 3}));
  if (poisoned) {
    REQUIRE_FALSE(outcomes[1]);
    CHECK(outcomes[1].error().code == errc::non_finite);
    CHECK(outcomes[1].error().where == "peer 0");
  } else {
    CHECK(outcomes[1]);
    CHECK((inward[1].at(6) == block_contents{4, 5}));
  }
}

}  // namespace causeway
