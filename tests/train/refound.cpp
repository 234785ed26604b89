// SPDX-License-Identifier: Apache-2.0
#include <causeway/train/refound.hpp>

#include <causeway/comm/periodic.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "support/catch.hpp"
#include "support/elastic.hpp"

using namespace causeway;
using namespace std::chrono_literals;

namespace {
const auto diloco = [] { return comm::periodic<>{{.local_steps = 3}}; };
}

TEST_CASE("refound: three or one peers of eight train to the end, every sample once", "[train][fast]") {
  for (const auto& left : {std::vector<std::uint32_t>{1, 4, 6}, std::vector<std::uint32_t>{5}}) {
    for (const auto killed_after : {1200ms, 2000ms, 2170ms}) {
      INFO("killed after " << killed_after.count() << " ms, " << left.size() << " left");
      support::elastic_cluster cluster{diloco, {.peers = 8, .rounds = 30}};
      cluster.keep_events = true;
      cluster.boot();
      cluster.run(killed_after);
      REQUIRE_FALSE(cluster.commits().empty());
      const auto done = cluster.checker().samples().done();
      for (std::uint32_t host = 0; host < 8; ++host) cluster.world().kill(host);
      cluster.run(3s);

      const auto founded = cluster.refound(left[0], 78);
      REQUIRE(founded);
      CHECK(founded->samples.done() <= done);
      for (const std::uint32_t host : left) cluster.world().restart(host);
      cluster.run(20min);
      REQUIRE(cluster.finished() == left.size());
      const auto wrong = cluster.check_branch();
      INFO(wrong.value_or(""));
      CHECK_FALSE(wrong);
      for (const std::uint32_t host : left) CHECK(cluster.parameters(host) == cluster.parameters(left[0]));
    }
  }
}

TEST_CASE("refound: a run can be founded anew more than once, and a crash in between costs nothing", "[train][fast]") {
  support::elastic_cluster cluster{diloco, {.peers = 4, .rounds = 60}};
  cluster.keep_events = true;
  cluster.boot();
  for (const std::uint64_t run : {78U, 79U, 80U}) {
    cluster.run(cluster.world().now().since_start + 2s);
    for (std::uint32_t host = 0; host < 4; ++host) cluster.world().kill(host);
    cluster.run(cluster.world().now().since_start + 1s);
    REQUIRE(cluster.refound(static_cast<std::uint32_t>(run) % 4, run));
    for (std::uint32_t host = 0; host < 4; ++host) cluster.world().restart(host);
  }
  cluster.run(20min);
  REQUIRE(cluster.finished() == 4);
  const auto wrong = cluster.check_branch();
  INFO(wrong.value_or(""));
  CHECK_FALSE(wrong);
}

TEST_CASE("refound: where the newest rounds are on no disk, the run goes on from the newest that is", "[train][fast]") {
  std::vector<std::string> lines;
  support::elastic_options o{.peers = 4, .rounds = 30, .store_every = 10};
  o.trace = [&](std::string_view line) { lines.emplace_back(line); };
  for (const std::uint64_t killed_at : {3U, 14U}) {
    INFO("killed in round " << killed_at);
    support::elastic_cluster cluster{diloco, o};
    cluster.keep_events = true;
    cluster.boot();
    while (cluster.commits().empty() || cluster.commits().rbegin()->first < killed_at) {
      cluster.run(cluster.world().now().since_start + 10ms);
    }
    for (std::uint32_t host = 0; host < 4; ++host) cluster.world().kill(host);
    cluster.run(cluster.world().now().since_start + 3s);
    for (std::uint32_t host = 0; host < 4; ++host) cluster.world().restart(host);
    lines.clear();
    cluster.run(cluster.world().now().since_start + 60s);
    CHECK(std::any_of(lines.begin(), lines.end(), [](const std::string& line) {
      return line.find("nobody within reach has the state of round") != line.npos &&
             line.find("--run.refound") != line.npos;
    }));
    for (std::uint32_t host = 0; host < 4; ++host) cluster.world().kill(host);
    cluster.run(cluster.world().now().since_start + 3s);

    const std::vector<std::string> folders{"member"};
    io::any_storage disk{io::basic_file_storage{*cluster.disk(1)}};
    const auto known = newest_round_known(disk, folders, 78);
    REQUIRE(known);
    CHECK(*known >= killed_at);
    const auto founded = cluster.refound(1, 78);
    REQUIRE(founded);
    CHECK(founded->newest->round == killed_at / 10 * 10 + 1);
    for (std::uint32_t host = 0; host < 4; ++host) cluster.world().restart(host);
    cluster.run(cluster.world().now().since_start + 20min);
    REQUIRE(cluster.finished() == 4);
    for (std::uint32_t host = 1; host < 4; ++host) CHECK(cluster.parameters(host) == cluster.parameters(0));
  }
}

TEST_CASE("refound: says what is missing", "[train][fast]") {
  support::elastic_cluster cluster{diloco, {.peers = 3, .rounds = 30}};
  cluster.boot();
  cluster.run(1500ms);
  for (std::uint32_t host = 0; host < 3; ++host) cluster.world().kill(host);
  cluster.run(2s);
  io::any_storage disk{io::basic_file_storage{*cluster.disk(1)}};
  const std::vector<std::string> nobody{"another"};
  const auto none = refound(disk, nobody, "another", 78, 5);
  REQUIRE_FALSE(none);
  CHECK(none.error().code == errc::not_found);
  const auto rounds = disk.list("member/rounds");
  REQUIRE(rounds);
  for (const auto& name : *rounds) REQUIRE(disk.remove("member/rounds/" + name));
  const std::vector<std::string> robbed{"member"};
  const auto without_state = refound(disk, robbed, "member", 78, 5);
  REQUIRE_FALSE(without_state);
  CHECK(without_state.error().text().find("state") != std::string::npos);
  CHECK(member_identity(disk, "member", 77, 1) != 1);  // nothing was changed
}
