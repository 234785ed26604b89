// SPDX-License-Identifier: Apache-2.0
// Presets that follow what links give, as measured while they train: on the simulator, where that is the same each time.

#include <causeway/optim/sgd.hpp>
#include <causeway/presets/gossip.hpp>
#include <causeway/sim/world.hpp>

#include <chrono>
#include <cstdint>
#include <functional>
#include <stdexcept>
#include <utility>
#include <vector>

#include "support/blocky.hpp"
#include "support/catch.hpp"
#include "support/conformance.hpp"

using namespace causeway;
using namespace std::chrono_literals;
using presets::make;

namespace {

/// Counts the bytes to each peer.
class counting_transport {
 public:
  counting_transport(sim::transport below, std::vector<std::uint64_t>& sent) : below_{std::move(below)}, sent_{&sent} {}

  [[nodiscard]] net::peer_index self() const { return below_.self(); }
  [[nodiscard]] std::uint32_t size() const { return below_.size(); }
  net::operation send(net::peer_index to, const net::message_id& id, std::span<const std::byte> bytes) {
    (*sent_)[to] += bytes.size();
    return below_.send(to, id, bytes);
  }
  net::operation receive(net::peer_index from, const net::message_id& id, std::span<std::byte> room) {
    return below_.receive(from, id, room);
  }
  result<std::size_t> wait(net::operation op, time_point deadline) { return below_.wait(op, deadline); }
  [[nodiscard]] bool done(net::operation op) const { return below_.done(op); }
  bool wait_any(std::span<const net::operation> ops, time_point deadline) { return below_.wait_any(ops, deadline); }
  [[nodiscard]] traffic stats() const { return below_.stats(); }

 private:
  sim::transport below_;
  std::vector<std::uint64_t>* sent_;
};

struct peer_record {
  std::vector<std::uint64_t> sent;          ///< bytes to each peer, in all steps but the first
  std::vector<time_point> after;            ///< each step
  std::vector<support::saved_state> saved;  ///< likewise
  std::vector<float> parameters;
};

/// Four peers, links of 10 MB/s and 1 ms, but for what `slow` makes of them.
template <class MakePolicy>
std::vector<peer_record> train(MakePolicy policy, std::uint64_t steps, const std::function<void(sim::world&)>& slow,
                               std::uint64_t from = 0, const std::vector<peer_record>& before = {}) {
  sim::world_options options;
  options.link.latency = 1ms;
  options.link.bytes_per_s = 1e7;
  sim::world world{options};
  std::vector<sim::host_index> hosts;
  for (std::uint32_t p = 0; p < 4; ++p) hosts.push_back(world.add_host({}));
  slow(world);
  std::vector<peer_record> peers(4);
  for (peer_record& peer : peers) peer.sent.resize(4);
  for (const auto host : hosts) {
    world.boot(host, [&, host](sim::process& process) {
      const auto must = [](const auto& outcome) {
        if (!outcome) throw std::runtime_error{outcome.error().text()};
      };
      auto made = process.make_transport(hosts);
      must(made);
      peer_record& me = peers[host];
      process.sleep_till({1s});
      environment env;
      env.transport = net::any_transport{counting_transport{std::move(*made), me.sent}};
      env.clock = process.clock();
      trainer_options o;
      o.learning_rate = optim::warmup_cosine{0.05F, 0, 0, 1.0F};
      o.clip_norm = 0;
      auto t =
          make_trainer(support::trained_as<support::blocky>{support::blocky{}}, std::move(env), o, policy(), optim::sgd{});
      if (from > 0) support::load(t, before[host].saved[from - 1]);
      must(t.start());
      for (std::uint64_t step = from; step < steps; ++step) {
        const auto tokens = support::tokens_of(host, step, 4);
        must(t.step({tokens, tokens, 1}));
        if (step == 0) me.sent.assign(4, 0);
        me.after.push_back(process.now());
        me.saved.push_back(support::save(t));
      }
      const auto values = t.model().parameters().values();
      me.parameters.assign(values.begin(), values.end());
    });
  }
  if (!world.run()) throw std::runtime_error{"some peer waits for ever"};
  return peers;
}

void slow_between_0_and_1(sim::world& world) {
  world.set_link(0, 1, {.latency = 1ms, .bytes_per_s = 1e4});
  world.set_link(1, 0, {.latency = 1ms, .bytes_per_s = 1e4});
}

duration last_steps(const std::vector<peer_record>& peers) { return peers[2].after.back() - peers[2].after.front(); }

}  // namespace

TEST_CASE("measured links: NETSTORM's trees leave out a slow link, and a step takes a fraction of the time",
          "[presets][fast]") {
  const auto policy = [](std::uint32_t every) {
    return [every] { return make(presets::netstorm_options{.measure_every = every}); };
  };
  const auto by_index = train(policy(0), 6, slow_between_0_and_1);
  const auto measured = train(policy(100), 6, slow_between_0_and_1);
  CHECK(by_index[0].sent[1] > 1000);
  CHECK(measured[0].sent[1] == 0);
  CHECK(measured[1].sent[0] == 0);
  CHECK(4 * last_steps(measured) < last_steps(by_index));
  for (const auto& peer : measured) {
    CHECK(peer.parameters == measured[0].parameters);
    for (std::size_t i = 0; i < peer.parameters.size(); ++i) {  // the same mean, summed in another order
      CHECK(peer.parameters[i] == Approx(by_index[0].parameters[i]).margin(1e-5));
    }
  }
}

TEST_CASE("measured links: NETSTORM measures again, and follows a link that has become slow", "[presets][fast]") {
  const auto policy = [] { return make(presets::netstorm_options{.measure_every = 3}); };
  const auto becomes_slow = [](sim::world& world) {
    world.at({1300ms}, [&world] { world.slow_link(2, 3, 1e4), world.slow_link(3, 2, 1e4); });
  };
  const auto run = train(policy, 12, becomes_slow);
  CHECK(run[0].after[2] > time_point{1s});
  const auto step = [&](std::size_t s) { return run[2].after[s] - run[2].after[s - 1]; };
  duration slowest{0};
  for (std::size_t s = 1; s < 12; ++s) slowest = std::max(slowest, step(s));
  CHECK(4 * step(11) < slowest);  // with no measurement in it
}

TEST_CASE("measured links: of NETSTORM's rows on slow lines a part goes by others, with the same bits", "[presets][fast]") {
  // All lines of peer 3 are slow. Of the 7 messages of its 976 bytes 3 go by peers 1 and 2. What comes back does not: the
  // root's lines to them have their own rows waiting.
  const auto far_away = [](sim::world& world) {
    for (const std::uint32_t near : {0U, 1U, 2U}) {
      world.set_link(3, near, {.latency = 1ms, .bytes_per_s = 1e4});
      world.set_link(near, 3, {.latency = 1ms, .bytes_per_s = 1e4});
    }
  };
  const auto policy = [](std::uint32_t limit) {
    return [limit] {
      return make(presets::netstorm_options{
          .shares = 1, .arity = 0, .roots = {0}, .measure_every = 100, .auxiliary = limit, .message_bytes = 140});
    };
  };
  const auto direct = train(policy(0), 6, far_away);
  const auto relayed = train(policy(1), 6, far_away);
  CHECK(direct[3].sent[1] + direct[3].sent[2] + direct[1].sent[3] + direct[2].sent[3] == 0);
  CHECK(direct[3].sent[0] == 5 * 976);
  CHECK(relayed[3].sent == std::vector<std::uint64_t>{5 * 560, 5 * 280, 5 * 136, 0});
  CHECK(20 * last_steps(relayed) < 17 * last_steps(direct));
  for (const auto& peer : relayed) CHECK(peer.parameters == direct[0].parameters);
}

TEST_CASE("measured links: who goes on from a checkpoint plans as the others, and ends with the same bits",
          "[presets][fast]") {
  const auto netstorm = [] { return make(presets::netstorm_options{.measure_every = 4, .message_bytes = 32}); };
  const auto bacombo = [] { return make(presets::bacombo_options{.local_steps = 1, .segments = 2, .measure_every = 4}); };
  const auto check = [](auto policy) {
    const auto whole = train(policy, 7, slow_between_0_and_1);
    for (const std::uint64_t from : {1U, 3U, 4U, 6U}) {
      const auto resumed = train(policy, 7, slow_between_0_and_1, from, whole);
      for (std::size_t p = 0; p < 4; ++p) CHECK(resumed[p].parameters == whole[p].parameters);
    }
  };
  check(netstorm);
  check(bacombo);
}

TEST_CASE("measured links: BACombo's groups prefer links that were found to be good", "[presets][fast]") {
  const auto policy = [](std::uint32_t every) {
    return [every] {
      return make(presets::bacombo_options{.local_steps = 1, .segments = 2, .explore = 0.1, .measure_every = every});
    };
  };
  const auto two_places = [](sim::world& world) {
    for (const std::uint32_t a : {0U, 1U}) {
      for (const std::uint32_t b : {2U, 3U}) {
        world.set_link(a, b, {.latency = 1ms, .bytes_per_s = 1e5});
        world.set_link(b, a, {.latency = 1ms, .bytes_per_s = 1e5});
      }
    }
  };
  const auto far = [](const std::vector<peer_record>& peers) {
    std::uint64_t bytes = 0, all = 0;
    for (std::size_t p = 0; p < 4; ++p) {
      for (std::size_t q = 0; q < 4; ++q) {
        all += peers[p].sent[q];
        bytes += (p < 2) != (q < 2) ? peers[p].sent[q] : 0;
      }
    }
    return static_cast<double>(bytes) / static_cast<double>(all);
  };
  const double at_random = far(train(policy(0), 60, two_places));
  const double measured = far(train(policy(1000), 60, two_places));
  CHECK(at_random == Approx(2.0 / 3).margin(0.15));
  CHECK(measured > 0);  // ε
  CHECK(measured < 0.2);
}

TEST_CASE("measured links: peers that come and go have no numbers to measure by", "[presets][fast]") {
  CHECK(!axis::linked_groups{.links = {.every = 1}}.check(0));
  CHECK(axis::linked_groups{.links = {.every = 1}}.check(4));
  CHECK(axis::linked_groups{}.check(0));
}
