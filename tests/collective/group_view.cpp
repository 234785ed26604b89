// SPDX-License-Identifier: Apache-2.0
#include <causeway/collective/group_view.hpp>

#include <causeway/collective/all_reduce.hpp>
#include <causeway/collective/gather_mean.hpp>

#include <array>
#include <string>
#include <vector>

#include "exchange_cases.hpp"
#include "support/catch.hpp"

using namespace cases;
using namespace causeway::collective;

TEST_CASE("group view: whether groups have each peer once", "[collective][fast]") {
  CHECK(has_each_once({{0, 1}, {2}}, 3));
  CHECK(has_each_once({{2, 0}, {1}}, 3));
  CHECK_FALSE(has_each_once({}, 3));
  CHECK_FALSE(has_each_once({{0, 1}}, 3));
  CHECK_FALSE(has_each_once({{0, 1}, {1, 2}}, 3));
  CHECK_FALSE(has_each_once({{0, 1, 2}, {}}, 3));
  CHECK_FALSE(has_each_once({{0, 1}, {3}}, 3));
}

TEST_CASE("group view: groups average for themselves, at the same time, and nothing goes outside", "[collective][fast]") {
  const memory_network network{7};
  const std::vector<std::vector<peer_index>> groups{{0, 2, 5}, {1, 3, 4, 6}};
  std::vector<std::vector<float>> rows(7);
  std::vector<std::uint64_t> frames(7);
  const auto outcomes = run_sides(network, [&](side& s) -> causeway::result<void> {
    const auto& members = groups[s.self == 0 || s.self == 2 || s.self == 5 ? 0 : 1];
    any_transport group{group_view{s.net, members}};
    rows[s.self] = values_of(s.self, 40);
    gather_mean<plain> exchange;
    const exchange_port port{group, s.port().id, s.options};
    CAUSEWAY_TRY(run_exchange(exchange, port, {.values = rows[s.self]}, s.ctx));
    frames[s.self] = s.net.stats().frames_sent;
    return {};
  });
  REQUIRE(all_succeeded(outcomes));
  for (const auto& members : groups) {
    std::vector<std::vector<float>> inputs;
    for (const peer_index p : members) inputs.push_back(values_of(p, 40));
    const auto mean = reference_mean(inputs, std::vector<float>(members.size(), 1.0F));
    for (const peer_index p : members) {
      CHECK(largest_difference(rows[p], mean) < 1.0);
      CHECK(same_bits(rows[p], rows[members[0]]));
      CHECK(frames[p] == members.size() - 1);
    }
  }
}

TEST_CASE("group view: the order of the list is the order of the ranks", "[collective][fast]") {
  const memory_network network{4};
  side s{any_transport{network.transport(2)}};
  const group_view view{s.net, {3, 2, 0}};
  CHECK(view.self() == 1);
  CHECK(view.size() == 3);
  CHECK(view.peer_of(0) == 3);

  side third{any_transport{network.transport(3)}};
  group_view theirs{third.net, {3, 2, 0}};
  group_view mine = view;
  std::array<std::byte, 3> text{std::byte{1}, std::byte{2}, std::byte{3}}, room{};
  const auto in = mine.receive(0, some_id, room);
  CHECK_FALSE(mine.done(in));
  CHECK_FALSE(mine.wait_any(std::array{in}, causeway::time_point{}));
  CHECK(*theirs.wait(theirs.send(1, some_id, text), soon()) == 3);
  CHECK(mine.wait_any(std::array{in}, soon()));
  CHECK(mine.done(in));
  CHECK(*mine.wait(in, soon()) == 3);
  CHECK(room == text);
}

TEST_CASE("group view: ranks that do not exist cost their own operation; a lost peer keeps its name",
          "[collective][fast]") {
  const memory_network network{4};
  side s{any_transport{network.transport(2)}};
  group_view view{s.net, {1, 2, 3}};
  std::array<std::byte, 3> room{};
  for (const peer_index rank : {1U, 3U, 99U}) {
    CHECK(view.done(view.send(rank, some_id, room)));
    CHECK(view.wait_any(std::array{view.send(rank, some_id, room)}, soon()));
    CHECK(view.wait(view.send(rank, some_id, room), soon()).error().code == errc::invalid_argument);
    CHECK(view.wait(view.receive(rank, some_id, room), soon()).error().code == errc::invalid_argument);
  }
  CHECK(view.stats().frames_sent == 0);
  const auto in = view.receive(2, some_id, room);
  network.kill(3);
  CHECK(view.wait(in, soon()).error().where == "peer 3");
}

TEST_CASE("group view: a group of one is a group", "[collective][fast]") {
  const memory_network network{3};
  side s{any_transport{network.transport(1)}};
  any_transport alone{group_view{s.net, {1}}};
  std::vector<float> values{1, 2, 3};
  gather_mean<plain> exchange;
  CHECK(run_exchange(exchange, {alone, some_id, s.options}, {.values = values}, s.ctx));
  CHECK(values == std::vector<float>{1, 2, 3});
}

TEST_CASE("group view: the first is the hub", "[collective][fast]") {
  CHECK(hubs_of({{2, 0}, {1}}) == peer_group{2, 1});
  CHECK(group_of({{2, 0}, {1}}, 0) == peer_group{2, 0});
  CHECK(group_of({{2, 0}, {1}}, 3).empty());
}

TEST_CASE("region label: they are what peers say, and who does not know goes where the fewest are", "[collective][fast]") {
  constexpr std::uint32_t unknown = region_label::any;
  CHECK(regions_by_label({7, 3, 7}, 2) == region_list{{1}, {0, 2}});
  CHECK(regions_by_label({unknown, unknown, unknown}, 2) == region_list{{0, 2}, {1}});
  CHECK(regions_by_label({5, 5, unknown, unknown, unknown}, 2) == region_list{{0, 1, 4}, {2, 3}});
  CHECK(regions_by_label({0, 1, 2, unknown}, 2) == region_list{{0, 3}, {1}, {2}});
  CHECK(regions_by_label({unknown}, 2) == region_list{{0}});
  CHECK(regions_by_label({unknown, unknown}, 0) == region_list{{0, 1}});
}
