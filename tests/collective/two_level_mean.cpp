// SPDX-License-Identifier: Apache-2.0
#include <causeway/collective/two_level_mean.hpp>

#include <causeway/collective/gather_mean.hpp>
#include <causeway/collective/quantised_ring.hpp>
#include <causeway/compress/block_int8.hpp>

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
using levels = two_level_mean<plain>;

template <class E = levels>
struct with_regions {
  region_list regions;
  E operator()(std::uint32_t) const { return E{regions}; }
};

/// One region of all, or one for each.
region_list together(std::uint32_t size) {
  region_list one(1);
  for (peer_index p = 0; p < size; ++p) one[0].push_back(p);
  return one;
}
region_list apart(std::uint32_t size) {
  region_list all;
  for (peer_index p = 0; p < size; ++p) all.push_back({p});
  return all;
}

/// Peers that say in which region they are, or that they do not know.
constexpr std::uint32_t unknown = region_label::any;
struct told {
  std::vector<std::uint32_t> own;
  levels operator()(std::uint32_t self) const {
    levels made{{}};
    made.set_label({.own = own[self], .fewest = 2});
    return made;
  }
};

}  // namespace

static_assert(Exchange<levels, message_context>);
static_assert(Exchange<two_level_mean<pairs, quantised_ring<int8>, int8>, message_context>);

TEST_CASE("two level mean: the weighted mean of all, with the same bits on all peers", "[collective][fast]") {
  for (const std::uint32_t size : {1U, 2U, 5U, 8U}) {
    CAPTURE(size);
    std::vector<float> weights;
    for (std::uint32_t p = 0; p < size; ++p) weights.push_back(static_cast<float>((p * 2) % 5) + (p == 0 ? 3.0F : 0.0F));
    for (const region_list& regions : {together(size), apart(size)}) {
      check_mean<levels>(size, 1001, weights, 1e-5, with_regions<>{regions});
    }
  }
  const region_list regions{{3, 0}, {5}, {1, 2, 4, 6}};
  const std::vector<float> weights{1, 2, 0, 4, 1, 0, 3};  // the region of 5 only listens
  check_mean<levels>(7, 500, weights, 1e-5, with_regions<>{regions});
  using ringed = two_level_mean<mirrored, quantised_ring<plain>>;
  check_mean<ringed>(7, 500, weights, 1e-5, with_regions<ringed>{regions});
  using gathered = two_level_mean<plain, gather_mean<pairs>, mirrored>;
  check_mean<gathered>(7, 500, weights, 1e-5, with_regions<gathered>{regions});
  using encoded = two_level_mean<int8>;
  check_mean<encoded>(7, 3000, weights, 0.3, with_regions<encoded>{regions});
  check_mean<levels>(3, 0, {1, 1, 1}, 1e-5, with_regions<>{together(3)});
}

TEST_CASE("two level mean: peers that tell their regions have the mean of all", "[collective][fast]") {
  const std::vector<float> weights{1, 2, 0, 4, 1, 0, 3};
  check_mean<levels>(7, 500, weights, 1e-5, told{{2, 9, 2, 9, 9, unknown, unknown}});
  check_mean<levels>(1, 500, {2}, 1e-5, told{{unknown}});
  check_peer_lost<levels>(4, told{{1, 0, 0, 1}});
  constexpr std::uint64_t row = 4 * 60;
  const std::uint64_t hub = 3 * 4 + (row + 16) + 2 * (row / 2 + 16);  // its word to each, a row, and two halves
  check_bytes<levels>(4, 60, {1, 1, 1, 1}, {hub, 3 * 4 + row + 16, hub, 3 * 4 + row + 16}, told{{1, 1, 2, 2}});
}

TEST_CASE("two level mean: what crosses regions is that of the hubs alone", "[collective][fast]") {
  constexpr std::uint64_t row = 4 * 60;
  // Hubs 0 and 3: a row to each of two peers, and a share of half a row out and back.
  const std::uint64_t hub = 2 * (row + 16) + 2 * (row / 2 + 16);
  check_bytes<levels>(6, 60, std::vector<float>(6, 1.0F), {hub, row + 16, row + 16, hub, row + 16, row + 16},
                      with_regions<>{{{0, 1, 2}, {3, 4, 5}}});
  // One region: nothing crosses.
  check_bytes<levels>(3, 60, {1, 1, 1}, {2 * (row + 16), row + 16, row + 16}, with_regions<>{together(3)});
}

TEST_CASE("two level mean: near latencies in regions, far ones only among hubs", "[collective][fast]") {
  using namespace std::chrono_literals;
  causeway::sim::world w{cluster::exact(1ms)};
  for (std::uint32_t h = 0; h < 6; ++h) w.add_host({.region = h / 3});
  for (const auto& [from, to] : {std::pair{0U, 1U}, std::pair{1U, 0U}}) w.set_region_link(from, to, {.latency = 100ms});
  causeway::duration took{0};
  const auto body = [&](causeway::sim::process& p, causeway::sim::transport& net) {
    side s{any_transport{std::move(net)}};
    s.options.deadline = causeway::no_deadline;
    std::vector<float> values(8, static_cast<float>(p.host()));
    levels exchange{{{0, 1, 2}, {3, 4, 5}}};
    REQUIRE(run_exchange(exchange, s.port(), {.values = values}, s.ctx));
    CHECK(values[7] == Approx(2.5F));
    took = std::max(took, p.now().since_start - 5s);
  };
  cluster::boot_peers(w, 6, body, cluster::at(5s));
  CHECK(w.run());
  CHECK((took >= 202ms && took < 203ms));
}

TEST_CASE("two level mean: the residual is what the own message left out, of hubs as well", "[collective][fast]") {
  const memory_network network{3};
  std::vector<std::vector<float>> residuals(3);
  const auto outcomes = run_sides(network, [&](side& s) -> causeway::result<void> {
    std::vector<float> values{0.3F, -1.2F, 5.0F};
    residuals[s.self].assign(3, 99.0F);
    two_level_mean<quarters, split_mean<plain>> exchange{{{0, 2}, {1}}};
    const exchange_row row{.values = values, .residual = residuals[s.self], .weight = s.self == 2 ? 0.0F : 1.0F};
    return run_exchange(exchange, s.port(), row, s.ctx);
  });
  REQUIRE(all_succeeded(outcomes));
  CHECK(residuals[0] == std::vector<float>{0.3F - 0.25F, -1.2F + 1.25F, 0});
  CHECK(residuals[1] == residuals[0]);
  CHECK(residuals[2] == std::vector<float>{0.3F, -1.2F, 5});
}

TEST_CASE("two level mean: weights that add up to nothing are refused on all peers alike", "[collective][fast]") {
  check_all_refuse<levels>(4, {0, 0, 0, 0}, errc::invalid_argument, with_regions<>{{{0, 1}, {2, 3}}});
}

TEST_CASE("two level mean: values that are not finite are refused everywhere", "[collective][fast]") {
  check_not_finite<levels>("peer 1", with_regions<>{together(4)});
  check_not_finite<levels>("peer 1", with_regions<>{{{1, 0}, {2, 3}}});  // the hub itself
  check_not_finite<levels>("peer 1", with_regions<>{{{3, 2}, {1}, {0}}});
  check_refuses_itself<levels>(with_regions<>{apart(3)});
}

TEST_CASE("two level mean: a region hears whose values are bad, the others which region's", "[collective][fast]") {
  const memory_network network{5};
  std::vector<std::string> named(5);
  (void)run_sides(network, [&](side& s) -> causeway::result<void> {
    std::vector<float> values(10, 1.0F);
    levels exchange{{{0, 1}, {2, 3, 4}}};
    const exchange_row row{.values = values, .refused = s.self == 4 ? errc::corrupt : errc{}};
    const auto outcome = run_exchange(exchange, s.port(), row, s.ctx);
    if (!outcome) named[s.self] = std::string{to_string(outcome.error().code)} + " " + outcome.error().where;
    return {};
  });
  const std::string hub = "corrupt peer 2", culprit = "corrupt peer 4";
  CHECK(named == std::vector<std::string>{hub, hub, culprit, culprit, culprit});
}

TEST_CASE("two level mean: regions that do not name everybody once are an error before anything is sent",
          "[collective][fast]") {
  const memory_network network{2};
  side s{any_transport{network.transport(0)}};
  std::vector<float> values(4);
  for (const region_list& regions : std::vector<region_list>{{}, {{0}}, {{0, 1}, {1}}, {{0, 1}, {}}, {{0, 2}}, {{1}}}) {
    levels exchange{regions};
    CHECK(exchange.begin(s.port(), {.values = values}, s.ctx).error().code == errc::invalid_argument);
  }
  CHECK(s.net.stats().frames_sent == 0);
}

TEST_CASE("two level mean: two conversations at once on different channels; one that is given up", "[collective][fast]") {
  check_overlap<levels>(with_regions<>{{{0, 2}, {1, 3}}});
  check_cancel<levels>(with_regions<>{{{0, 2}, {1}}});
}

TEST_CASE("two level mean: a peer that dies at any operation is named by the others, and the object works again",
          "[collective][fast]") {
  check_peer_lost<levels>(4, with_regions<>{{{3, 0}, {1, 2}}});  // a hub
  check_peer_lost<levels>(4, with_regions<>{{{0, 3}, {1, 2}}});  // a member
}
