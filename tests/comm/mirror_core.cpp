// SPDX-License-Identifier: Apache-2.0
#include <causeway/comm/mirror_core.hpp>

#include <causeway/comm/mirrors.hpp>
#include <causeway/core/thread_pool.hpp>
#include <causeway/optim/sgd.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "support/simulated_runs.hpp"

using namespace causeway;
using support::simulated_options;
using namespace std::chrono_literals;

namespace {

using codec = compress::sparse<compress::no_transform, compress::significant, compress::none>;
using groups = std::vector<std::vector<net::peer_index>>;

auto policy(groups g, std::uint32_t most_ahead = 4, float threshold = 0.05F) {
  return [=] {
    return comm::mirrors<codec>{{.most_ahead = most_ahead, .groups = g},
                                codec{compress::no_transform{}, compress::significant{{.first = threshold}}}};
  };
}

support::simulated_run run(groups g, simulated_options o, std::uint32_t most_ahead = 4, float threshold = 0.05F) {
  const auto make = policy(std::move(g), most_ahead, threshold);
  support::simulated_runs<optim::sgd, support::blocky, decltype(make)> runs{make, o};
  auto all = runs.run();
  support::all_alike(all);
  CHECK(runs.run().history == all.history);
  return all;
}

/// What a core asks of a context.
struct small_context {
  std::vector<float> values{};
  thread_pool workers{1};

  thread_pool& pool() { return workers; }
  std::span<float> parameters() { return values; }
  void parameters_changed() {}
  [[nodiscard]] static std::uint32_t self() { return 0; }
};

}  // namespace

TEST_CASE("mirror core: where it is kept apart, a hub says of its own what it computed", "[comm][fast]") {
  small_context ctx{{1.0F, 1.0F}};
  comm::detail::mirror_core<codec> hub{codec{compress::no_transform{}, compress::significant{{.first = 0.25F}}}};
  hub.begin(ctx.parameters());
  hub.begin_audiences(2);
  ctx.values = {0.5F, 0.75F};  // of this, another hub told 0.125 of the first value, which is not significant
  hub.relayed[0] = 0.125F;
  hub.audiences[1].copy[0] -= 0.125F;
  hub.sent[0] -= 0.125F;
  std::vector<float> told(2);
  REQUIRE(hub.tell(ctx, [&](auto updates) { CHECK(hub.decode_add(ctx, updates, told, 1.0F)); }));
  CHECK(told == std::vector<float>{0.375F, 0.25F});
  CHECK(hub.relayed[0] == 0.125F);
  hub.gather_own(ctx.parameters());
  CHECK(hub.row == told);
}

TEST_CASE("mirror core: hubs pass on what their groups and the other hubs tell", "[comm][fast]") {
  // Peers that hear everything of everybody end nearer to the optimum of all samples than those who hear of their group.
  const simulated_options o{.peers = 6, .steps = 60, .learning_rate = 0.02F};
  const auto distance = [&](const groups& g) {
    return support::distance_to_optimum(run(g, o, 4, 1e-6F).peers[5].parameters, 6, 60);
  };
  const double all = distance({}), hubs = distance({{0, 1, 2}, {3, 4, 5}}), three = distance({{0, 1}, {2}, {3, 4, 5}});
  CAPTURE(all, hubs, three);
  CHECK(hubs < 1.2 * all + 1e-3);
  CHECK(three < 1.2 * all + 1e-3);
}

TEST_CASE("mirror core: with hubs less is sent, and still less between groups", "[comm][fast]") {
  const groups two{{0, 1, 2, 3}, {4, 5, 6, 7}};
  const auto sent = [](const support::simulated_run& r, bool between_groups) {
    double bytes = 0;
    for (std::size_t p = 0; p < 8; ++p) {
      for (std::size_t q = 0; q < 8; ++q) {
        if (!between_groups || p / 4 != q / 4) bytes += static_cast<double>(r.peers[p].sent_to[q]);
      }
    }
    return bytes;
  };
  // Without a threshold all messages are alike: 8 * 7 of a clock; with hubs two groups of 4 * 3, and 2 between them. In
  // between, some are still on their way when peers are done.
  const auto measured = [&](const groups& g, bool between) {
    return sent(run(g, {.peers = 8, .steps = 40}, 4, 1e-6F), between) -
           sent(run(g, {.peers = 8, .steps = 20}, 4, 1e-6F), between);
  };
  CHECK(measured(two, false) / measured({}, false) == Approx(26.0 / 56).epsilon(0.05));
  CHECK(measured(two, true) / measured({}, true) == Approx(2.0 / 32).epsilon(0.05));
}

TEST_CASE("mirror core: a hub that is done passes on what the others still compute", "[comm][fast]") {
  const groups two{{0, 1}, {2, 3}};
  const auto r = run(two, {.peers = 4, .steps = 3, .more_steps = {0, 9, 0, 9}}, 2);
  // Nobody was held by it: the others went at their own pace.
  CHECK(seconds(r.peers[1].trained - r.peers[1].began) < 12 * 0.02 + 0.02);
}

TEST_CASE("mirror core: with hubs, restored and broken runs go on or name who is lost", "[comm][fast]") {
  const auto make = policy({{0, 1}, {2}}, 2);
  support::check_asynchronous_policy<optim::sgd>(make, {.steps = 2, .speeds = {1, 2, 1}, .hubs = {0, 1, 2}});
}

TEST_CASE("mirror core: groups have each peer once", "[comm][fast]") {
  for (const groups& g : {groups{{0, 1}}, groups{{0, 1}, {1, 2}}, groups{{0, 1}, {2}, {}}}) {
    const auto make = policy(g);
    support::simulated_runs<optim::sgd, support::blocky, decltype(make)> runs{make, {.steps = 1}};
    const auto all = runs.run();
    REQUIRE(all.peers[0].error);
    CHECK(all.peers[0].error->text().find("every peer must be in one group") != std::string::npos);
  }
}
