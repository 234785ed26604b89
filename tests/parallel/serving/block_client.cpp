// SPDX-License-Identifier: Apache-2.0
// Servers that are lost, slow or dishonest while clients train: nothing of a step is lost, and its numbers are the same.
#include <causeway/parallel/serving/block_client.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "support/catch.hpp"
#include "support/counted_fabric.hpp"
#include "support/tuned_gpt.hpp"

namespace causeway::parallel {
namespace {

using namespace std::chrono_literals;
using support::small_text;
using swarm_type = support::served_gpt<>;

struct trained {
  std::vector<double> losses;
  std::vector<float> values;
  std::uint64_t calls = 0, calls_of_first = 0, lost = 0;
  friend bool operator==(const trained& a, const trained& b) { return a.losses == b.losses && a.values == b.values; }
};

/// Steps of a client, of which `at` hears of every network call and how many there were.
trained train(nn::gpt& model, const std::function<void(swarm_type&)>& serve, int steps = 2,
              const std::function<void(swarm_type&, std::uint64_t)>& at = {},
              const std::function<void(swarm_type::client_options&)>& change = {}) {
  swarm_type swarm{model};
  serve(swarm);
  trained t;
  bool counts = false;
  swarm_type::client_options o;
  o.wrap = [&](std::shared_ptr<net::fabric> below) {
    return std::make_shared<support::counted_fabric>(std::move(below), [&](support::fabric_call) {
      if (counts && at) at(swarm, t.calls);
      t.calls += counts ? 1 : 0;
    });
  };
  if (change) change(o);
  swarm.add_client(o, [&](sim::process&, auto& client) {
    client.initialize(7);
    optim::adamw inner;
    inner.reset(client.parameters().length());
    counts = true;
    for (int s = 0; s < steps; ++s) {
      t.losses.push_back(support::tuned(client, inner, small_text{static_cast<std::uint64_t>(s)}));
      if (s == 0) t.calls_of_first = t.calls;
    }
    counts = false;
    const auto values = client.parameters().values();
    t.values.assign(values.begin(), values.end());
    t.lost = client.client().lost_requests();
  });
  REQUIRE(swarm.run());
  return t;
}

/// Two chains, cut at different places; the first is quicker.
void two_chains(swarm_type& s) {
  s.add_server(0, 3);
  s.add_server(3, 3);
  s.add_server(0, 2, 15us);
  s.add_server(2, 4, 15us);
}

/// A server of all blocks that answers what it is told to.
struct dishonest_server final : net::fabric_events {
  using reaction = std::function<void(dishonest_server&, net::peer_index, const block_wire::request&)>;
  dishonest_server(std::shared_ptr<net::fabric> f, std::uint64_t agreed, reaction r)
      : fabric{std::move(f)}, run{agreed}, react{std::move(r)} {
    fabric->attach(this);
    fabric->locked([this] { fabric->dial("host-0:1"); });
  }
  dishonest_server(const dishonest_server&) = delete;
  dishonest_server& operator=(const dishonest_server&) = delete;
  ~dishonest_server() override { fabric->attach(nullptr); }
  void on_up(net::peer_index l, net::peer_id, const std::string&) override {
    fabric->post(l, block_wire::encode(run, block_wire::announcement{600000, {{0, 6}, 1e-9, 0, 4, 1000}, 1e9}));
  }
  void on_down(net::peer_index, const error&) override {}
  void on_unreachable(const std::string&, const error&) override {}
  void on_control(net::peer_index l, std::span<const std::byte> bytes) override {
    const auto m = block_wire::decode(run, bytes);
    if (const auto* const r = m ? std::get_if<block_wire::request>(&*m) : nullptr) asked.emplace_back(l, *r);
  }
  void on_wake() override {}
  void serve(int most) {
    for (int i = 0; i < most; ++i) {
      (void)fabric->block([this] { return !asked.empty(); }, no_deadline);
      const auto next = asked.front();
      asked.erase(asked.begin());
      react(*this, next.first, next.second);
    }
  }
  void answer(net::peer_index l, const block_wire::request& r, const std::vector<std::byte>& bytes) {
    kept.push_back(std::make_unique<std::vector<std::byte>>(bytes));
    (void)fabric->send(l, block_wire::answer_id(r.number), *kept.back());
  }
  std::shared_ptr<net::fabric> fabric;
  std::uint64_t run;
  reaction react;
  std::vector<std::pair<net::peer_index, block_wire::request>> asked;
  std::vector<std::unique_ptr<std::vector<std::byte>>> kept;
};

}  // namespace

TEST_CASE("block_client: a server that is killed at any network call of a client costs no bit", "[parallel][fast]") {
  auto model = support::pretrained_gpt();
  const trained want = train(model, two_chains);
  REQUIRE(want.calls_of_first > 30);
  REQUIRE(want.lost == 0);
  std::uint64_t lost = 0;
  for (const std::uint32_t victim : {0U, 1U}) {
    for (std::uint64_t n = 0; n < want.calls_of_first; ++n) {
      INFO("server " << victim << " at call " << n);
      const trained got = train(model, two_chains, 2, [&](swarm_type& s, std::uint64_t call) {
        if (call == n) s.world.kill(victim);
      });
      CHECK(got == want);
      lost += got.lost;
    }
  }
  CHECK(lost > want.calls_of_first / 2);
}

TEST_CASE("block_client: and none of adapters, which travel with every request", "[parallel][fast]") {
  auto model = support::pretrained_gpt();
  const auto tuning = [](auto& o) {
    o.tuning = {.prompts = prompt_options{.rows = 2}, .adapters = nn::adapter_options{.rank = 2, .alpha = 3}};
  };
  const auto tuned = [&](const auto& at) { return train(model, two_chains, 2, at, tuning); };
  const trained want = tuned([](swarm_type&, std::uint64_t) {});
  REQUIRE(want.lost == 0);
  std::uint64_t lost = 0;
  for (const std::uint32_t victim : {0U, 1U}) {
    for (std::uint64_t n = 0; n < want.calls; ++n) {
      INFO("server " << victim << " at call " << n);
      const trained got = tuned([&](swarm_type& s, std::uint64_t call) {
        if (call == n) s.world.kill(victim);
      });
      CHECK(got == want);
      lost += got.lost;
    }
  }
  CHECK(lost > want.calls / 2);
}

TEST_CASE("block_client: where all servers of a block are lost, the client waits until one is back", "[parallel][fast]") {
  auto model = support::pretrained_gpt();
  const auto one_chain = [](swarm_type& s) {
    s.add_server(0, 3);
    s.add_server(3, 3);
  };
  const trained want = train(model, two_chains);
  for (std::uint64_t n = 0; n < want.calls_of_first; n += 3) {
    INFO("at call " << n);
    const trained got = train(model, one_chain, 2, [&](swarm_type& s, std::uint64_t call) {
      if (call != n) return;
      for (const std::uint32_t h : {0U, 1U}) {
        s.world.kill(h);
        s.world.after(3s + h * 1s, [&s, h] { s.world.restart(h); });
      }
    });
    CHECK(got == want);
  }
}

TEST_CASE("block_client: who loses power or stands still is left when patience ends", "[parallel][fast]") {
  auto model = support::pretrained_gpt();
  const trained want = train(model, two_chains);
  for (const bool power : {false, true}) {
    for (std::uint64_t n = 0; n < want.calls; n += 7) {
      INFO("at call " << n << (power ? ": no power" : ": stopped"));
      const trained got = train(model, two_chains, 2, [&](swarm_type& s, std::uint64_t call) {
        if (call == n && power) s.world.power_off(1);
        if (call == n && !power) s.world.stop(1);
      });
      CHECK(got == want);
    }
  }
}

TEST_CASE("block_client: a block that nobody serves is named, and the next step begins anew", "[parallel][fast]") {
  auto model = support::pretrained_gpt();
  swarm_type swarm{model};
  two_chains(swarm);
  swarm.add_client({}, [&](sim::process& p, auto& client) {
    const small_text t{1};
    const auto pass = [&] { return client.evaluate(t.in, t.out, support::sequences_each); };
    const double before = support::valued(pass());
    swarm.world.kill(1);
    swarm.world.kill(3);
    const auto outcome = pass();
    REQUIRE_FALSE(outcome);
    CHECK(outcome.error().code == errc::timeout);
    CHECK_THAT(outcome.error().text(), Catch::Matchers::Contains("block 3 of 6"));
    swarm.world.restart(1);
    p.sleep(5s);
    CHECK(support::valued(pass()) == before);
  });
  CHECK(swarm.run());
}

TEST_CASE("block_client: the quick server is asked, and the other once it has become the quicker", "[parallel][fast]") {
  auto model = support::pretrained_gpt();
  swarm_type swarm{model};
  swarm.add_server(0, 6, 10us);
  swarm.add_server(0, 6, 20us);
  swarm_type::client_options o;
  o.client.most_rows = 1024;
  swarm.add_client(o, [&](sim::process&, auto& client) {
    const small_text t{1};
    const auto asked = [&] { return std::pair{swarm.servers.at(0)->answered(), swarm.servers.at(1)->answered()}; };
    const auto steps = [&] {
      const auto before = asked();
      for (int s = 0; s < 30; ++s) (void)support::valued(client.evaluate(t.in, t.out, support::sequences_each));
      const auto after = asked();
      return std::pair{after.first - before.first, after.second - before.second};
    };
    const auto usual = steps();
    CHECK(usual.first == 30);
    CHECK(usual.second == 0);
    swarm.world.set_speed(0, 0.2);  // five times slower from now on
    const auto slowed = steps();
    CHECK(slowed.first < 10);
    CHECK(slowed.second > 20);
  });
  CHECK(swarm.run());
}

TEST_CASE("block_client: pieces of a batch go through several servers of the same blocks at once", "[parallel][fast]") {
  auto model = support::pretrained_gpt();
  const auto took = [&](int servers) {
    swarm_type swarm{model};
    for (int s = 0; s < servers; ++s) swarm.add_server(0, 6, 1ms);
    swarm_type::client_options o;
    o.client.most_rows = 8;  // a sequence each
    double seconds_taken = 0;
    swarm.add_client(o, [&](sim::process& p, auto& client) {
      p.sleep(3s);
      const small_text t{1};
      const time_point begin = p.now();
      (void)support::valued(client.forward_backward(t.in, t.out, support::sequences_each, 1.0F, 0));
      seconds_taken = seconds(p.now() - begin);
    });
    REQUIRE(swarm.run());
    return seconds_taken;
  };
  const double one = took(1), four = took(4);
  CHECK(one > 4 * 3 * 8 * 6 * 1e-3);  // three forwards of four sequences
  CHECK(four < 0.4 * one);
}

TEST_CASE("block_client: servers whose answers no honest one gives are left, and the step is whole", "[parallel][fast]") {
  auto model = support::pretrained_gpt();
  const trained want = train(model, two_chains);
  const std::uint64_t run = span_run(5, stage::family_agreement<nn::gpt_family>(support::frozen_gpt), stage::plain{});
  const auto bytes_of = [](const block_wire::request& r) {
    const std::size_t deep = r.backward != 0 ? static_cast<std::size_t>(r.blocks.size()) * r.prompts * 64 : 0;
    return static_cast<std::size_t>(r.rows()) * 64 + deep;
  };
  std::vector<dishonest_server::reaction> lies;
  lies.emplace_back([](auto& s, auto l, const auto& r) { s.answer(l, r, std::vector<std::byte>(12)); });
  lies.emplace_back([&](auto& s, auto l, const auto& r) { s.answer(l, r, std::vector<std::byte>(bytes_of(r) + 4)); });
  lies.emplace_back([&](auto& s, auto l, const auto& r) {
    s.answer(l, r, std::vector<std::byte>(bytes_of(r), std::byte{0xFF}));  // not numbers
  });
  lies.emplace_back([](auto& s, auto l, const auto& r) { s.answer(l, r, {block_wire::not_here}); });
  lies.emplace_back([](auto& s, auto l, const auto& r) { s.answer(l, r, {block_wire::not_finite}); });
  lies.emplace_back([](auto& s, auto l, const auto&) { s.fabric->post(l, std::vector<std::byte>(9, std::byte{7})); });
  lies.emplace_back([](auto&, auto, const auto&) {});
  for (std::size_t i = 0; i < lies.size(); ++i) {
    INFO("lie " << i);
    const trained got = train(
        model,
        [&](swarm_type& s) {
          two_chains(s);
          const auto host = s.world.add_host({});
          s.world.boot(host, [&, i](sim::process& p) {
            dishonest_server server{p.make_fabric(66), run, lies[i]};
            server.serve(1000);
          });
        },
        2, {},
        [](auto& o) {
          o.client.dial = {"host-4:1", "host-0:1"};
        });
    CHECK(got == want);
    CHECK(got.lost > 0);
  }
}

TEST_CASE("block_client: prompts that are not finite, or make rows so, fail the step and say so", "[parallel][fast]") {
  auto model = support::pretrained_gpt();
  swarm_type swarm{model};
  two_chains(swarm);
  swarm.add_client({}, [&](sim::process&, auto& client) {
    for (const float bad : {std::numeric_limits<float>::quiet_NaN(), 3e38F}) {
      const auto spoil = [bad](auto values) {
        values[0] = bad;
        values[32] = bad;  // added to it before the first block: beyond what f32 has
      };
      CHECK(support::error_of(client, spoil) == errc::non_finite);
    }
    CHECK_FALSE(support::error_of(client, [](auto) {}));
  });
  CHECK(swarm.run());
}

TEST_CASE("block_client: two clients at once train what each trains alone", "[parallel][fast]") {
  auto model = support::pretrained_gpt();
  const auto tune = [](auto& client, std::uint64_t seed) {
    client.initialize(seed);
    optim::adamw inner;
    inner.reset(client.parameters().length());
    for (std::uint64_t s = 0; s < 3; ++s) (void)support::tuned(client, inner, small_text{seed * 10 + s});
    const auto values = client.parameters().values();
    return std::vector<float>{values.begin(), values.end()};
  };
  std::vector<std::vector<float>> alone(2), together(2);
  for (const bool both : {false, true}) {
    auto& ends = both ? together : alone;
    for (std::size_t first = 0; first < 2; first += both ? 2 : 1) {
      swarm_type swarm{model};
      two_chains(swarm);
      for (std::size_t c = first; c < (both ? 2 : first + 1); ++c) {
        swarm.add_client({}, [&, c](sim::process&, auto& client) { ends[c] = tune(client, c + 1); });
      }
      REQUIRE(swarm.run());
      CHECK(swarm.servers.at(0)->answered() + swarm.servers.at(2)->answered() >= 12U);
    }
  }
  const bool first = together[0] == alone[0], second = together[1] == alone[1];
  CHECK(first);
  CHECK(second);
  CHECK(together[0] != together[1]);
}

}  // namespace causeway::parallel
