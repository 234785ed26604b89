// SPDX-License-Identifier: Apache-2.0
// What goes by third peers, on the simulator: how much, and how much sooner a mean is there. That it is the same mean and
// that nobody waits for ever is held with the exchange that uses it: tree_mean.cpp.
#include <causeway/collective/tree_relays.hpp>

#include <causeway/collective/tree_mean.hpp>

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "exchange_cases.hpp"
#include "sim/cluster.hpp"
#include "support/catch.hpp"

using namespace cases;
using namespace causeway::collective;
using namespace std::chrono_literals;

namespace {

using tree = tree_mean<plain>;

constexpr std::size_t message_bytes = 100'000;
constexpr std::size_t values_of_messages(std::size_t n) { return (n * message_bytes - 16) / 4; }

struct outcome {
  causeway::duration took{0};
  std::vector<std::uint64_t> sent;  ///< bytes of each peer
  std::vector<std::vector<float>> rows;
};

/// `rows` means of `size` peers at once, of so many messages each, over links of 10 MB/s but for what `prepare` makes of
/// them.
struct cluster_of {
  std::uint32_t size = 3;
  std::uint32_t rows = 1;
  std::size_t messages = 6;
  bool in_common = true;  ///< the rows' queues
  std::function<void(causeway::sim::world&)> prepare = [](causeway::sim::world&) {};

  [[nodiscard]] outcome run(const tree_options& options, const std::vector<double>& costs = {}) const {
    auto world_options = cluster::exact(1ms);
    world_options.link.bytes_per_s = 1e7;
    causeway::sim::world w{world_options};
    cluster::add_hosts(w, size, {.up_bytes_per_s = 1e12, .down_bytes_per_s = 1e12});
    prepare(w);
    outcome found{.sent = std::vector<std::uint64_t>(size), .rows = std::vector<std::vector<float>>(size)};
    cluster::boot_peers(w, size, [&](causeway::sim::process& p, causeway::sim::transport& net) {
      side s{any_transport{std::move(net)}};
      s.options.deadline = causeway::no_deadline;
      const auto queues = std::make_shared<line_queues>();
      std::vector<tree> exchanges;
      for (std::size_t r = 0; r < rows; ++r) exchanges.emplace_back(options);
      std::vector<std::vector<float>> values(rows, values_of(p.host(), values_of_messages(messages)));
      const auto port = [&](std::size_t r) { return s.port(7 + r); };
      for (std::size_t r = 0; r < rows; ++r) {
        if (in_common) exchanges[r].share(queues);
        if (!costs.empty()) exchanges[r].follow(options.parents, costs);
        REQUIRE(exchanges[r].begin(port(r), {.values = values[r]}, s.ctx));
      }
      for (std::size_t r = 0; r < rows; ++r) REQUIRE(exchanges[r].turn(port(r), {.values = values[r]}, s.ctx));
      for (std::size_t r = 0; r < rows; ++r) REQUIRE(exchanges[r].finish(port(r), {.values = values[r]}, s.ctx));
      found.took = std::max(found.took, p.now().since_start - 1s);
      found.sent[p.host()] = s.net.stats().bytes_sent;
      found.rows[p.host()] = values.back();
      p.sleep(10s);
    });
    CHECK(w.run());
    return found;
  }
};

/// A tenth of the rate of the others.
void slow_between_0_and_1(causeway::sim::world& w) {
  w.set_link(1, 0, {.latency = 1ms, .bytes_per_s = 1e6});
  w.set_link(0, 1, {.latency = 1ms, .bytes_per_s = 1e6});
}
const std::vector<double> slow_costs{0, 10, 1, 10, 0, 1, 1, 1, 0};

bool about(causeway::duration took, causeway::duration expected) { return took >= expected && took < expected + 10ms; }

}  // namespace

TEST_CASE("tree relays: of a slow link's row the end goes by a fast path, and the mean is there as much sooner",
          "[collective][fast]") {
  const cluster_of three{.prepare = slow_between_0_and_1};
  tree_options options{.parents = {0, 0, 0}};
  const outcome direct = three.run(options, slow_costs);
  CHECK(direct.sent == std::vector<std::uint64_t>{1'200'000, 600'000, 600'000});
  CHECK(about(direct.took, 1200ms));  // 600 kB up, 600 kB down, at 1 MB/s

  // 4 of 6 messages go directly, 2 by peer 2, which pays for no detour by peer 1 itself.
  options.relays = {.limit = 1, .message_bytes = message_bytes};
  const outcome relayed = three.run(options, slow_costs);
  CHECK(relayed.sent == std::vector<std::uint64_t>{1'200'000, 600'000, 600'000 + 2 * 200'000});
  CHECK(about(relayed.took, 800ms));
  for (const auto& row : relayed.rows) CHECK(same_bits(row, direct.rows[0]));

  // Without costs all links are alike: up, peer 2's row goes by the slow link too, as much as is saved there. Down, that
  // has messages waiting, and the row goes directly.
  const outcome blind = three.run(options);
  CHECK(blind.sent == std::vector<std::uint64_t>{1'200'000, 600'000 + 200'000, 600'000 + 2 * 200'000});
  CHECK(about(blind.took, 1000ms));
}

TEST_CASE("tree relays: what other rows have waiting for a line counts", "[collective][fast]") {
  cluster_of three{.rows = 2, .messages = 4, .prepare = slow_between_0_and_1};
  const tree_options options{.parents = {0, 0, 0}, .relays = {.limit = 1, .message_bytes = message_bytes}};
  // Up and down, of the second row between 0 and 1 two messages go by peer 2, since the first row's 4 are on the line.
  const outcome together = three.run(options, slow_costs);
  CHECK(together.sent == std::vector<std::uint64_t>{1'600'000, 800'000, 800'000 + 2 * 200'000});
  CHECK(about(together.took, 1000ms));
  three.in_common = false;
  const outcome apart = three.run(options, slow_costs);
  CHECK(apart.sent == std::vector<std::uint64_t>{1'600'000, 800'000, 800'000});
  CHECK(about(apart.took, 1200ms));
  for (std::uint32_t p = 0; p < 3; ++p) CHECK(same_bits(together.rows[p], apart.rows[0]));
}

TEST_CASE("tree relays: who waits for one row passes on what comes for the others", "[collective][fast]") {
  // In one fixed order, a row after the other, these took 266 and 864 ms.
  const auto check = [](const cluster_of& chain, std::vector<causeway::net::peer_index> parents, causeway::duration alone,
                        causeway::duration with) {
    tree_options options{.parents = std::move(parents)};
    const outcome direct = chain.run(options);
    CHECK(about(direct.took, alone));
    options.relays = {.limit = 2, .message_bytes = message_bytes};
    const outcome relayed = chain.run(options);
    CHECK(about(relayed.took, with));
    for (const auto& row : relayed.rows) CHECK(same_bits(row, direct.rows[0]));
  };
  check({.size = 3, .rows = 2, .messages = 4}, {0, 0, 1}, 200ms, 200ms);
  check({.size = 4, .rows = 3, .messages = 8}, {0, 0, 1, 2}, 640ms, 570ms);
}

TEST_CASE("tree relays: a queue counts messages until they are out, on the lines of one network", "[collective][fast]") {
  causeway::sim::world w{cluster::exact(1ms)};
  cluster::add_hosts(w, 2, {.up_bytes_per_s = 1e6});
  cluster::boot_peers(w, 2, [&](causeway::sim::process& p, causeway::sim::transport& net) {
    side s{any_transport{std::move(net)}};
    std::vector<std::byte> bytes(2'000'000);
    if (p.host() == 1) {
      REQUIRE(s.net.wait(s.net.receive(0, s.port().id, bytes), causeway::no_deadline));
      return;
    }
    line_queues queues;
    queues.open(s.port());
    const auto sent = s.net.send(1, s.port().id, bytes);
    queues.note(1, sent, 20);
    CHECK(queues.handed_over(1) == 20);
    CHECK(queues.handed_over(0) == 0);
    queues.open(s.port(8));  // another exchange on them
    CHECK(queues.handed_over(1) == 20);
    REQUIRE(s.net.wait(sent, causeway::no_deadline));
    CHECK(queues.handed_over(1) == 0);
    queues.note(1, sent, 20);
    any_transport other;
    queues.open({other, s.port().id, s.options});
    CHECK(queues.handed_over(1) == 0);
  });
  CHECK(w.run());
}
