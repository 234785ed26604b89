// SPDX-License-Identifier: Apache-2.0
#include <causeway/collective/tree_mean.hpp>

#include <causeway/compress/block_int8.hpp>
#include <causeway/compress/fp16.hpp>

#include <string>
#include <vector>

#include "exchange_cases.hpp"
#include "exchange_faults.hpp"
#include "sim/cluster.hpp"
#include "support/catch.hpp"

using namespace cases;
using namespace causeway::collective;

namespace {

using int8 = causeway::compress::as_message<causeway::compress::block_int8>;
using half = causeway::compress::as_message<causeway::compress::fp16>;
using tree = tree_mean<plain>;

template <class E = tree>
struct with_tree {
  tree_options options;
  E operator()(std::uint32_t) const { return E{options}; }
};

}  // namespace

static_assert(Exchange<tree, message_context>);
static_assert(Exchange<tree_mean<int8, pairs>, message_context>);

TEST_CASE("tree mean: the weighted mean, with the same bits on all peers", "[collective][fast]") {
  for (const std::uint32_t size : {1U, 2U, 3U, 5U, 8U}) {
    CAPTURE(size);
    std::vector<float> weights;
    for (std::uint32_t p = 0; p < size; ++p) weights.push_back(static_cast<float>((p * 2) % 5) + (p == 0 ? 3.0F : 0.0F));
    check_mean<tree>(size, 1000, std::vector<float>(size, 1.0F));
    for (const std::uint32_t arity : {1U, 2U, 3U, 9U}) {
      check_mean<tree>(size, 1001, weights, 1e-5, with_tree<>{{.arity = arity, .root = 2 * size - 1}});  // modulo the peers
      check_mean<tree_mean<plain, mirrored>>(size, 7, weights, 1e-5,
                                             with_tree<tree_mean<plain, mirrored>>{{arity, size / 2}});
      check_mean<tree_mean<int8>>(size, 3000, weights, 0.5, with_tree<tree_mean<int8>>{{.arity = arity}});
    }
  }
  check_mean<tree>(3, 0, {1, 1, 1});
}

TEST_CASE("tree mean: a row to the parent, a row to each child", "[collective][fast]") {
  constexpr std::uint64_t row = 4 * 50 + 16;
  // 0 has the children 1 and 2, 1 has 3 and 4, 2 has 5.
  check_bytes<tree>(6, 50, {1, 1, 1, 1, 1, 1}, {2 * row, 3 * row, 2 * row, row, row, row});
  // A leaf that only listens sends its header; so does an inner peer with nothing to pass on.
  check_bytes<tree>(6, 50, {1, 1, 0, 1, 0, 0}, {2 * row, 3 * row, row + 16, row, 16, 16});
  // From peer 4 on: 4 has 5 and 0, 5 has 1 and 2, 0 has 3.
  check_bytes<tree>(6, 50, {1, 1, 1, 1, 1, 1}, {2 * row, row, row, row, 2 * row, 3 * row},
                    with_tree<>{{.arity = 2, .root = 4}});
}

TEST_CASE("tree mean: along parents that it is given, now or later", "[collective][fast]") {
  constexpr std::uint64_t row = 4 * 50 + 16;
  // 3 has 0 and 4, 0 has 2, 2 has 1.
  const std::vector<peer_index> parents{3, 2, 0, 3, 3};
  check_mean<tree>(5, 1001, {1, 2, 0, 1, 3}, 1e-5, with_tree<>{{.parents = parents}});
  check_bytes<tree>(5, 50, {1, 1, 1, 1, 1}, {2 * row, row, 2 * row, 2 * row, row}, with_tree<>{{.parents = parents}});
  const auto led = [&](std::uint32_t) {
    tree exchange{{.root = 1}};
    exchange.follow(parents, {});
    return exchange;
  };
  check_bytes<tree>(5, 50, {1, 1, 1, 1, 1}, {2 * row, row, 2 * row, 2 * row, row}, led);
  check_peer_lost<tree>(4, with_tree<>{{.parents = {1, 3, 1, 3}}});
}

TEST_CASE("tree mean: takes as many latencies as the tree is deep, twice", "[collective][fast]") {
  using namespace std::chrono_literals;
  for (const auto& [arity, latencies] : std::vector<std::pair<std::uint32_t, int>>{{1, 12}, {2, 4}, {6, 2}}) {
    causeway::sim::world w{cluster::exact(100ms)};
    cluster::add_hosts(w, 7);
    causeway::duration took{0};
    cluster::boot_peers(w, 7, [&, arity = arity](causeway::sim::process& p, causeway::sim::transport& net) {
      side s{any_transport{std::move(net)}};
      s.options.deadline = causeway::no_deadline;
      std::vector<float> values(10, static_cast<float>(p.host()));
      tree exchange{{.arity = arity}};
      REQUIRE(run_exchange(exchange, s.port(), {.values = values}, s.ctx));
      CHECK(values[9] == Approx(3));
      took = std::max(took, p.now().since_start - 1s);
    });
    CHECK(w.run());
    CHECK((took >= latencies * 100ms && took < latencies * 100ms + 1ms));
  }
}

TEST_CASE("tree mean: with an arity of 0 all peers are the root's children", "[collective][fast]") {
  constexpr std::uint64_t row = 4 * 50 + 16;
  check_bytes<tree>(4, 50, {1, 1, 1, 1}, {row, row, 3 * row, row}, with_tree<>{{.arity = 0, .root = 2}});
}

TEST_CASE("tree mean: parts of rows by third peers, and the same bits", "[collective][fast]") {
  // 7 messages of 32 bytes: 4 directly, 2 and 1 by third peers.
  const auto mean_of = [](std::uint32_t size, const auto& make) {
    std::vector<std::vector<float>> rows(size);
    const memory_network network{size};
    CHECK(all_succeeded(run_sides(network, [&](side& s) {
      auto exchange = make(s.self);
      rows[s.self] = values_of(s.self, 50);
      return run_exchange(exchange, s.port(), {.values = rows[s.self]}, s.ctx);
    })));
    for (const auto& row : rows) CHECK(same_bits(row, rows[0]));
    return rows[0];
  };
  const relay_options relays{.limit = 1, .message_bytes = 32};
  for (const std::uint32_t size : {2U, 3U, 4U, 7U}) {
    for (const std::uint32_t arity : {0U, 1U, 2U}) {
      CAPTURE(size, arity);
      const with_tree<> direct{{.arity = arity, .root = 1}}, relayed{{.arity = arity, .root = 1, .relays = relays}};
      CHECK(same_bits(mean_of(size, relayed), mean_of(size, direct)));
      const with_tree<tree_mean<int8>> short_direct{{.arity = arity}}, short_relayed{{.arity = arity, .relays = {1, 8}}};
      CHECK(same_bits(mean_of(size, short_relayed), mean_of(size, short_direct)));
    }
  }
  check_mean<tree>(5, 1001, {1, 2, 0, 1, 3}, 1e-5, with_tree<>{{.parents = {3, 2, 0, 3, 3}, .relays = {2, 100}}});
  check_not_finite<tree>("peer 1", with_tree<>{{.arity = 2, .relays = relays}});
  check_overlap<tree>(with_tree<>{{.arity = 2, .relays = relays}});
  check_cancel<tree>(with_tree<>{{.arity = 2, .relays = relays}});
}

TEST_CASE("tree mean: a relay that dies at any operation is named, and the object works again",
          "[collective][slow][every_call]") {
  for (const std::uint32_t arity : {0U, 1U, 2U}) {
    check_peer_lost<tree>(4, with_tree<>{{.arity = arity, .relays = {.limit = 1, .message_bytes = 32}}});
  }
}

TEST_CASE("tree mean: weights that add up to nothing are refused on all peers alike", "[collective][fast]") {
  check_all_refuse<tree>(4, {0, 0, 0, 0}, errc::invalid_argument);
}

TEST_CASE("tree mean: values that are not finite are refused on all peers, naming theirs", "[collective][fast]") {
  check_not_finite<tree>("peer 1");
  check_not_finite<tree>("peer 1", with_tree<>{{.arity = 1, .root = 1}});
  check_not_finite<tree_mean<int8>>("peer 1");
  check_refuses_itself<tree>();
}

TEST_CASE("tree mean: a sum beyond f32 or beyond its codec is nobody's fault", "[collective][fast]") {
  check_nobodys_fault<tree>(6, 2e38F);
  check_nobodys_fault<tree_mean<half>>(6, 4e4F);
}

TEST_CASE("tree mean: two conversations at once on different channels", "[collective][fast]") {
  check_overlap<tree>();
  check_cancel<tree>();
}

TEST_CASE("tree mean: a peer that dies at any operation is named by the others, and the object works again",
          "[collective][fast]") {
  check_peer_lost<tree>(4);
  check_peer_lost<tree>(4, with_tree<>{{.arity = 2, .root = 3}});
  check_peer_lost<tree>(4, with_tree<>{{.arity = 1, .root = 2}});
}

TEST_CASE("tree mean: messages that no peer makes are refused, from below and from above", "[collective][fast]") {
  for (const peer_index root : {0U, 1U}) {  // the liar is peer 1: a child, or the root
    const memory_network network{2};
    side me{any_transport{network.transport(0)}};
    side liar{any_transport{network.transport(1)}};
    tree exchange{{.arity = 2, .root = root}};
    std::uint64_t step = 0;
    const auto against = [&](const std::vector<std::byte>& lie) {
      std::vector<float> values(4, 1.0F);
      auto id = me.port(++step).id;
      id.channel += root;  // sums go on the first channel, means on the second
      REQUIRE(liar.net.wait(liar.net.send(0, id, lie), soon()));
      const auto outcome = run_exchange(exchange, me.port(step), {.values = values}, me.ctx);
      return outcome ? std::string{"ok"} : std::string{to_string(outcome.error().code)} + " " + outcome.error().where;
    };
    CHECK(against(message(1, 4, 0, 0, 16)) == "ok");
    CHECK(against({}) == "protocol peer 1");
    CHECK(against(message(1, 5, 0, 0, 16)) == "protocol peer 1");
    CHECK(against(message(1, 4, 0, 0, 15)) == "protocol peer 1");
    CHECK(against(message(1, 4, 0, 0, 160)) == "too_large peer 1");
    CHECK(against(message(-1, 4, 0, 0, 16)) == "corrupt peer 1");
    CHECK(against(message(0, 4, 9, 17, 0)) == "corrupt peer 1");
    CHECK(against(message(0, 4, 1, 17, 0)) == "non_finite peer 1");
  }
}

TEST_CASE("tree mean: more by a third peer than a row may have is refused, naming its sender", "[collective][fast]") {
  const memory_network network{3};
  side me{any_transport{network.transport(0)}};
  side child{any_transport{network.transport(1)}}, other{any_transport{network.transport(2)}};
  tree exchange{{.arity = 0, .relays = {.limit = 1, .message_bytes = 16}}};
  std::vector<float> values(12, 1.0F);  // 64 bytes with the header
  const auto send = [](side& from, std::uint32_t channel, const std::vector<std::byte>& bytes) {
    auto id = from.port().id;
    id.channel += channel;
    REQUIRE(from.net.wait(from.net.send(0, id, bytes), soon()));
  };
  send(child, 0, message(1, 12, 0, 0, 48));
  send(other, 0, message(1, 12, 0, 0, 48));
  send(other, 2 + causeway::collective::channel_limit, message(1, 12, 0, 0, 0));  // of peer 1's row, which is whole already
  send(child, 2 + 2 * causeway::collective::channel_limit, {});
  const auto refused = run_exchange(exchange, me.port(), {.values = values}, me.ctx);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == errc::protocol);
  CHECK(refused.error().where == "peer 1");
}
