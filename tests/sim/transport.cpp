// SPDX-License-Identifier: Apache-2.0
#include <causeway/sim/transport.hpp>

#include <causeway/collective/all_reduce.hpp>

#include <causeway/comm/every_step.hpp>
#include <causeway/comm/periodic.hpp>
#include <causeway/net/memory_transport.hpp>
#include <causeway/optim/sgd.hpp>
#include <causeway/train/trainer.hpp>

#include <string>
#include <thread>
#include <vector>

#include "cluster.hpp"
#include "support/catch.hpp"
#include "support/quadratic.hpp"

using namespace cluster;

namespace {

std::string code(const auto& outcome) { return outcome ? "ok" : std::string{to_string(outcome.error().code)}; }

/// How long `f(transport, values)` takes the slowest of `peers` peers, and whether all end with the same bits.
template <class F>
duration time_collective(sim::world& w, std::uint32_t peers, std::size_t count, const F& f) {
  std::vector<std::vector<float>> results(peers);
  duration took{0};
  boot_peers(w, peers, [&](sim::process& p, sim::transport& net) {
    std::vector<float> values(count);
    for (std::size_t i = 0; i < count; ++i) values[i] = static_cast<float>((i * 7 + p.host() * 3) % 11);
    f(net, std::span{values});
    took = std::max(took, p.now().since_start - 1s);
    results[p.host()] = values;
  });
  CHECK(w.run());
  for (const auto& r : results) CHECK(r == results[0]);
  float sum = 0;
  for (std::uint32_t p = 0; p < peers; ++p) sum += static_cast<float>((7 + p * 3) % 11);
  CHECK(results[0][1] == sum);
  return took;
}

/// Trains the quadratic on four simulated peers; where they end, and when.
template <class MakePolicy>
auto train(std::uint64_t seed, std::uint64_t steps, const MakePolicy& make, duration compute = 50ms) {
  struct outcome {
    std::vector<std::vector<float>> parameters = std::vector<std::vector<float>>(4);
    time_point end;
    std::uint64_t history = 0;
  } all;
  sim::world_options o;
  o.seed = seed;
  o.link.jitter = 5ms;
  o.link.loss = 0.01;
  sim::world w{o};
  add_hosts(w, 4);
  w.set_speed(3, 0.5);
  boot_peers(w, 4, [&](sim::process& p, sim::transport& net) {
    environment env;
    env.clock = p.clock();
    env.transport = net::any_transport{std::move(net)};
    trainer_options options;
    options.learning_rate = optim::constant{0.05F};
    auto t = make_trainer(support::test_model{support::quadratic{}}, std::move(env), options, make(), optim::sgd{});
    REQUIRE(t.start());
    for (std::uint64_t s = 0; s < steps; ++s) {
      const auto tokens = support::tokens_of(p.host(), s);
      p.compute(compute);
      REQUIRE(t.step({tokens, tokens, 1}));
    }
    REQUIRE(t.finish());
    const auto values = t.model().parameters().values();
    all.parameters[p.host()].assign(values.begin(), values.end());
  });
  CHECK(w.run());
  all.end = w.now();
  all.history = w.history_hash();
  return all;
}

/// The same over a memory network with a thread per peer.
template <class MakePolicy>
std::vector<float> train_on_threads(std::uint64_t steps, const MakePolicy& make) {
  std::vector<float> end;
  net::memory_network network{4};
  std::vector<std::thread> threads;
  for (std::uint32_t peer = 0; peer < 4; ++peer) {
    threads.emplace_back([&, peer] {
      environment env;
      env.transport = net::any_transport{network.transport(peer)};
      trainer_options options;
      options.learning_rate = optim::constant{0.05F};
      auto t = make_trainer(support::test_model{support::quadratic{}}, std::move(env), options, make(), optim::sgd{});
      if (!t.start()) return;
      for (std::uint64_t s = 0; s < steps; ++s) {
        const auto tokens = support::tokens_of(peer, s);
        if (!t.step({tokens, tokens, 1})) return;
      }
      if (!t.finish() || peer != 0) return;
      const auto values = t.model().parameters().values();
      end.assign(values.begin(), values.end());
    });
  }
  for (auto& t : threads) t.join();
  return end;
}

}  // namespace

TEST_CASE("transport: peers meet whoever comes first, and keep the indices of the list", "[sim][fast]") {
  sim::world w;
  add_hosts(w, 5);
  const std::vector<sim::host_index> list{4, 0, 2};
  int done = 0;
  for (const sim::host_index h : list) {
    w.at(at((h + 1) * 3s), [&, h] {
      w.boot(h, [&](sim::process& p) {
        auto net = p.make_transport(list);
        REQUIRE(net);
        CHECK(net->size() == 3);
        CHECK(list[net->self()] == p.host());
        std::uint32_t mine = net->self();
        for (net::peer_index to = 0; to < 3; ++to) {
          if (to != mine) REQUIRE(net->wait(net->send(to, some_id, std::as_bytes(std::span{&mine, 1})), no_deadline));
        }
        for (net::peer_index from = 0; from < 3; ++from) {
          std::uint32_t theirs = 99;
          if (from == mine) continue;
          REQUIRE(net->wait(net->receive(from, some_id, std::as_writable_bytes(std::span{&theirs, 1})), no_deadline));
          CHECK(theirs == from);
        }
        ++done;
      });
    });
  }
  CHECK(w.run());
  CHECK(done == 3);
}

TEST_CASE("transport: who does not come is named; who is not in the list is told", "[sim][fast]") {
  sim::world w;
  add_hosts(w, 4);
  std::string where;
  w.boot(0, [&](sim::process& p) {
    const auto alone = p.make_transport({0, 2, 3}, 5s);
    REQUIRE_FALSE(alone);
    CHECK(alone.error().code == errc::timeout);
    where = alone.error().where;
    CHECK(p.now() == at(5s));
    CHECK(code(p.make_transport({1, 2})) == "invalid_argument");
  });
  CHECK(w.run());
  CHECK(where == "peer 1, peer 2");
}

TEST_CASE("transport: errors name peers by their index", "[sim][fast]") {
  sim::world w;
  add_hosts(w, 3);
  w.at(at(5s), [&] { w.kill(2); });
  boot_peers(w, 3, [&](sim::process& p, sim::transport& net) {
    std::vector<std::byte> room(8);
    if (p.host() != 2) {
      const auto lost = net.wait(net.receive(2, some_id, room), no_deadline);
      REQUIRE_FALSE(lost);
      CHECK(lost.error().code == errc::peer_lost);
      CHECK(lost.error().where == "peer 2");
      CHECK(code(net.wait(net.receive(p.host(), some_id, room), no_deadline)) == "invalid_argument");
      CHECK(code(net.wait(net.receive(7, some_id, room), no_deadline)) == "invalid_argument");
    }
    p.sleep(10s);
  });
  CHECK(w.run());
}

TEST_CASE("transport: done follows virtual time, and takes none", "[sim][fast]") {
  sim::world_options o;
  o.link.latency = 100ms;
  sim::world w{o};
  add_hosts(w, 2);
  boot_peers(w, 2, [&](sim::process& p, sim::transport& net) {
    std::vector<std::byte> room(8);
    if (p.host() == 0) {
      p.sleep(1s);
      CHECK(net.wait(net.send(1, some_id, room), no_deadline));
      p.sleep(1s);
      return;
    }
    const auto op = net.receive(0, some_id, room);
    p.sleep(1s);
    const time_point before = p.now();
    for (int look = 0; look < 100; ++look) CHECK_FALSE(net.done(op));
    CHECK(p.now() == before);
    p.compute(200ms);
    CHECK(net.done(op));
    const time_point arrived = p.now();
    CHECK(*net.wait(op, no_deadline) == 8);
    CHECK(p.now() == arrived);
    CHECK(net.done(op));
  });
  CHECK(w.run());
}

TEST_CASE("transport: collectives take the time of their formulas", "[sim][fast]") {
  // n peers, S bytes, rate B each way, one-way latency L; nothing else costs time.
  constexpr std::uint32_t n = 8;
  constexpr std::size_t count = n * 62500;
  constexpr double rate = 1e7;
  constexpr double size = 4.0 * count;
  const double latency = 0.020;
  sim::host_options host;
  host.up_bytes_per_s = host.down_bytes_per_s = rate;
  sim::world w{exact(20ms)};
  add_hosts(w, n, host);
  collective::collective_options options;

  SECTION("one shot: (n-1) S / B + L") {
    options.how = collective::algorithm::one_shot;
    const auto took = time_collective(
        w, n, count, [&](auto& net, auto values) { REQUIRE(collective::all_reduce_sum(net, some_id, values, options)); });
    CHECK(seconds(took) == Approx((n - 1) * size / rate + latency).epsilon(0.001));
  }
  SECTION("ring, one chunk per segment: 2 (n-1) (S / (n B) + L)") {
    options.how = collective::algorithm::ring;
    options.chunk_bytes = static_cast<std::size_t>(size / n);
    const auto took = time_collective(
        w, n, count, [&](auto& net, auto values) { REQUIRE(collective::all_reduce_sum(net, some_id, values, options)); });
    CHECK(took == 2 * (n - 1) * (sim::detail::transfer_time(size / n, rate) + 20ms));
  }
  SECTION("butterfly: 2 (n-1)/n S / B, and between one latency and two, for phases overlap") {
    options.how = collective::algorithm::butterfly;
    const auto took = time_collective(
        w, n, count, [&](auto& net, auto values) { REQUIRE(collective::all_reduce_sum(net, some_id, values, options)); });
    const double transfer = 2.0 * (n - 1) / n * size / rate;
    CHECK(seconds(took) >= transfer + latency);
    CHECK(seconds(took) <= 1.05 * transfer + 2 * latency);
  }
}

TEST_CASE("transport: a trainer gives the parameters of real threads, whatever the seed; the timing differs",
          "[sim][fast]") {
  const auto check = [](const auto& make) {
    const auto first = train(1, 12, make);
    const auto again = train(1, 12, make);
    const auto other = train(2, 12, make);
    for (const auto& p : first.parameters) CHECK(p == first.parameters[0]);
    CHECK(again.parameters == first.parameters);
    CHECK(again.history == first.history);
    CHECK(again.end == first.end);
    CHECK(other.parameters == first.parameters);
    CHECK(other.history != first.history);
    CHECK(other.end != first.end);
    CHECK(first.parameters[0] == train_on_threads(12, make));
  };
  SECTION("every step") {
    check([] { return comm::every_step<>{}; });
  }
  SECTION("every four steps") {
    check([] { return comm::periodic<>{{.local_steps = 4}}; });
  }
}

TEST_CASE("transport: fewer exchanges take less virtual time", "[sim][fast]") {
  const auto every = train(1, 16, [] { return comm::every_step<>{}; });
  const auto seldom = train(1, 16, [] { return comm::periodic<>{{.local_steps = 8}}; });
  CHECK(every.end > seldom.end);
  CHECK(seldom.end >= at(1s + 16 * 100ms));  // the slow peer's computing is a lower bound
}

TEST_CASE("transport: killed in the middle of a collective, the others get errors and nothing leaks", "[sim][fast]") {
  for (int when = 0; when < 40; ++when) {
    sim::world w;
    add_hosts(w, 4);
    int failed = 0;
    boot_peers(w, 4, [&](sim::process& p, sim::transport& net) {
      std::vector<float> values(100000, 1.0F);
      collective::collective_options options;
      options.how = static_cast<collective::algorithm>(1 + when % 3);
      result<void> outcome;
      net::message_id id = some_id;
      for (; outcome && id.step < 1000; ++id.step)
        outcome = collective::all_reduce_sum(net, id, std::span{values}, options);
      if (!outcome && p.host() != 1) {
        ++failed;  // cancelled: another survivor was the first to give up
        CHECK((outcome.error().code == errc::peer_lost || outcome.error().code == errc::cancelled));
      }
    });
    w.at(at(1100ms + when * 700us), [&] { w.kill(1); });
    CHECK(w.run());
    CHECK(failed == 3);
    CHECK(w.shared().net.wires().open_connections() == 0);
  }
}
