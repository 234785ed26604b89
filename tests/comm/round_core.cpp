// SPDX-License-Identifier: Apache-2.0
#include <causeway/comm/round_core.hpp>

#include <causeway/axis/participation.hpp>
#include <causeway/comm/rounds.hpp>
#include <causeway/io/archive.hpp>
#include <causeway/optim/sgd.hpp>

#include <cstdint>
#include <tuple>
#include <utility>
#include <vector>

#include "support/blocky.hpp"
#include "support/catch.hpp"
#include "support/cluster.hpp"

using namespace causeway;

namespace {

using to_mean = axis::outer<optim::sgd>;

/// What one round of a policy among `peers` peers makes of parameters that each moved by its own number + 1.
template <class MakePolicy>
std::vector<std::vector<float>> round_of(std::uint32_t peers, MakePolicy policy) {
  std::vector<std::vector<float>> ends(peers);
  support::run_cluster(peers, [&](std::uint32_t peer, environment env) {
    training_context<support::blocky, optim::sgd> ctx{support::blocky{}, optim::sgd{}, std::move(env), {}, false};
    auto p = policy();
    if (!p.start(ctx)) return;
    for (float& v : ctx.parameters()) v += static_cast<float>(peer + 1);
    ctx.count_samples(1);
    if (!p.after_inner_step(ctx)) return;
    ends[peer].assign(ctx.parameters().begin(), ctx.parameters().end());
  });
  return ends;
}

struct a_run {
  bool comes_and_goes;
  [[nodiscard]] std::uint32_t numbered_peers() const { return comes_and_goes ? 0 : 2; }
};

/// Whether such an exchange is refused where peers come and go, and not where they stay.
template <class Recipe>
bool only_of_peers_that_stay(Recipe recipe) {
  const comm::detail::round_core<Recipe> core{std::tuple{std::move(recipe)}};
  a_run stays{false}, changes{true};
  const auto refused = core.check(changes);
  return core.check(stays) && !refused && refused.error().code == errc::invalid_argument;
}

}  // namespace

TEST_CASE("round core: what names peers by number is refused where they come and go", "[comm][fast]") {
  axis::tree_mean<> trees;
  CHECK_FALSE(only_of_peers_that_stay(trees));
  trees.links.every = 2;
  CHECK(only_of_peers_that_stay(trees));
  axis::split_mean<> split;
  CHECK_FALSE(only_of_peers_that_stay(split));
  split.options.shares = {1, 3};
  CHECK(only_of_peers_that_stay(split));
  axis::two_level_mean<> levels;
  CHECK_FALSE(only_of_peers_that_stay(levels));
  levels.regions = {{0}, {1}};
  CHECK(only_of_peers_that_stay(levels));
}

TEST_CASE("round core: the mean is over those who were drawn, whichever way it is made", "[comm][fast]") {
  support::blocky model;
  const float before = model.parameters().values()[0];
  const auto ring = round_of(4, [] {
    return comm::rounds{axis::every{1}, axis::sampled_peers{0.5}, axis::split_mean<>{}, to_mean{1.0F}};
  });
  const auto gathered = round_of(4, [] {
    return comm::rounds{axis::every{1}, axis::sampled_peers{0.5}, axis::gather_mean<>{}, to_mean{1.0F}};
  });
  for (std::size_t p = 0; p < 4; ++p) {
    REQUIRE(!ring[p].empty());
    REQUIRE(!gathered[p].empty());
    CHECK(ring[p][0] == gathered[p][0]);
    CHECK(ring[p] == ring[0]);
  }
  const float moved = ring[0][0] - before;  // the mean of two of 1, 2, 3, 4
  CHECK(moved >= 1.5F);
  CHECK(moved <= 3.5F);
  CHECK(2 * moved == static_cast<float>(static_cast<int>(2 * moved)));
}

TEST_CASE("round core: a checkpoint of other fragments is refused", "[comm][fast]") {
  const auto context = [] {
    return training_context<support::blocky, optim::sgd>{support::blocky{}, optim::sgd{}, {}, {}, false};
  };
  auto ctx = context();
  comm::rounds whole{axis::every{3}};
  REQUIRE(whole.start(ctx));
  const auto bytes = io::archiver{}.to_bytes(whole).value();
  comm::rounds cut{axis::staggered{3}, axis::strided{2}};
  comm::rounds same{axis::every{3}};
  REQUIRE(io::archiver{}.from_bytes(bytes, same));
  CHECK(same.start(ctx));
  REQUIRE(io::archiver{}.from_bytes(bytes, cut));
  const auto started = cut.start(ctx);
  REQUIRE(!started);
  CHECK(started.error().code == errc::wrong_model);
}
