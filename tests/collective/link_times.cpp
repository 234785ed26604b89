// SPDX-License-Identifier: Apache-2.0
#include <causeway/collective/link_times.hpp>

#include <causeway/net/memory_transport.hpp>
#include <causeway/sim/world.hpp>

#include <chrono>
#include <functional>
#include <set>
#include <stdexcept>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "support/cluster.hpp"

using namespace causeway;
using namespace std::chrono_literals;

namespace {

/// What each of `peers` peers knows after it measured `times`; links of 10 MB/s and 5 ms where `prepare` says nothing else.
std::vector<std::vector<double>> measured(std::uint32_t peers, std::uint32_t times,
                                          const std::function<void(sim::world&)>& prepare,
                                          std::vector<duration> late = {}) {
  sim::world_options options;
  options.link.latency = 5ms;
  options.link.bytes_per_s = 1e7;
  sim::world world{options};
  std::vector<sim::host_index> hosts;
  for (std::uint32_t p = 0; p < peers; ++p) hosts.push_back(world.add_host({}));
  prepare(world);
  std::vector<std::vector<double>> known(peers);
  for (const auto host : hosts) {
    world.boot(host, [&, host](sim::process& process) {
      auto made = process.make_transport(hosts);
      if (!made) throw std::runtime_error{made.error().text()};
      net::any_transport transport{std::move(*made)};
      if (host < late.size()) process.sleep(late[host]);
      for (std::uint32_t i = 0; i < times; ++i) {
        const auto done =
            collective::measure_links(transport, process.clock(), {.channel = 160, .step = i}, {}, 65536, known[host]);
        if (!done) throw std::runtime_error{done.error().text()};
      }
    });
  }
  CHECK(world.run());
  return known;
}

}  // namespace

TEST_CASE("link times: everybody meets everybody once, two by two", "[collective][fast]") {
  for (std::uint32_t peers = 2; peers < 10; ++peers) {
    std::set<std::pair<net::peer_index, net::peer_index>> met;
    for (std::uint32_t turn = 0; turn < (peers % 2 == 0 ? peers - 1 : peers); ++turn) {
      for (net::peer_index p = 0; p < peers; ++p) {
        const net::peer_index other = collective::probe_partner(p, peers, turn);
        REQUIRE(other < peers);
        CHECK(collective::probe_partner(other, peers, turn) == p);
        if (other != p) CHECK(met.insert({p, other}).second);
      }
    }
    CHECK(met.size() == std::size_t{peers} * (peers - 1));
  }
}

TEST_CASE("link times: seconds per byte of each direction, alike on all peers, whatever delays there are and who is late",
          "[collective][fast]") {
  const auto known = measured(5, 1,
                              [](sim::world& world) {
                                world.set_link(1, 3, {.latency = 5ms, .bytes_per_s = 1e6});  // one direction
                                world.set_link(4, 0, {.latency = 90ms, .bytes_per_s = 1e7});
                              },
                              {0ms, 40ms, 0ms, 700ms, 3ms});
  for (const auto& of_peer : known) CHECK(of_peer == known[0]);
  for (std::size_t from = 0; from < 5; ++from) {
    for (std::size_t to = 0; to < 5; ++to) {
      const double expected = from == to ? 0 : from == 1 && to == 3 ? 1e-6 : 1e-7;
      INFO(from << " to " << to);
      CHECK(known[0][from * 5 + to] == Approx(expected).epsilon(0.02));
    }
  }
}

TEST_CASE("link times: half of what was known stays", "[collective][fast]") {
  const auto once = measured(2, 1, [](sim::world&) {});
  const auto changed = measured(2, 2, [](sim::world& world) {
    world.at({50ms}, [&world] { world.slow_link(0, 1, 1e6); });  // between the first probe to peer 1 and the second
  });
  CHECK(changed[0] == changed[1]);
  CHECK(changed[0][2] == Approx(once[0][2]).epsilon(0.02));
  CHECK(changed[0][1] == Approx((1e-7 + 1e-6) / 2).epsilon(0.02));
}

TEST_CASE("link times: one peer alone has nothing to measure, and a probe has bytes", "[collective][fast]") {
  CHECK(measured(1, 2, [](sim::world&) {})[0] == std::vector<double>{0});
  std::vector<double> none;
  sim::world world{{}};
  const std::vector<sim::host_index> hosts{world.add_host({})};
  world.boot(hosts[0], [&](sim::process& process) {
    net::any_transport transport{*process.make_transport(hosts)};
    const auto done = collective::measure_links(transport, process.clock(), {.channel = 160}, {}, 0, none);
    CHECK((!done && done.error().code == errc::invalid_argument));
  });
  CHECK(world.run());
}

TEST_CASE("link times: when a peer dies at any operation the others come back with an error", "[collective][fast]") {
  for (std::uint64_t nth = 0;; ++nth) {
    CAPTURE(nth);
    REQUIRE(nth < 100);
    net::memory_network network{3};
    network.kill_at(2, nth);
    std::vector<char> done(3);
    support::run_cluster(network, 3, [&](std::uint32_t peer, environment env) {  // nobody has a deadline
      std::vector<double> costs;
      done[peer] = collective::measure_links(env.transport, any_clock{}, {.channel = 160}, {}, 64, costs) ? 1 : 0;
    });
    if (done[2] != 0) {
      CHECK((done[0] != 0 && done[1] != 0));
      CHECK(nth > 10);
      break;
    }
    if (nth < 10) CHECK((done[0] == 0 && done[1] == 0));  // it had not told everybody yet
  }
}
