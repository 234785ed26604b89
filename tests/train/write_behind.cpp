// SPDX-License-Identifier: Apache-2.0
#include <causeway/train/write_behind.hpp>

#include <causeway/comm/periodic.hpp>
#include <causeway/train/member.hpp>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "support/elastic.hpp"

using namespace causeway;
using namespace std::chrono_literals;
namespace wire = causeway::membership::detail;

namespace {

/// A disk that is slow until `finish` is called, and what left the peer.
struct bench {
  std::vector<std::pair<std::function<void()>, std::function<void()>>> work;
  std::vector<membership::durable_record> disk;
  std::vector<std::string> out;
  bool good = true;
  time_point now;

  detail::write_behind behind{
      {.aside = [this](auto what, auto then) { work.emplace_back(what, then); },
       .write =
           [this](const std::vector<std::byte>& record) {
             if (good) disk.push_back(membership::decode_durable_record(record).value());
             return good;
           },
       .send = [this](net::peer_id to,
                      const std::vector<std::byte>& message) { out.push_back(std::to_string(to) + ":" + text(message)); },
       .note = [this](const membership::event& e) { out.push_back("note " + std::to_string(e.round)); },
       .failed = [this] { out.emplace_back("failed"); },
       .now = [this] { return now; }},
      5s,
      9};

  static std::string text(const std::vector<std::byte>& message) {
    const auto m = wire::decode_message(9, message).value();
    if (const auto* r = std::get_if<wire::report>(&m)) return "report " + std::to_string(r->sequence);
    if (std::holds_alternative<wire::heartbeat>(m)) return "heartbeat";
    if (std::holds_alternative<wire::farewell>(m)) return "farewell";
    return std::holds_alternative<wire::vote>(m) ? "vote" : "other";
  }

  void persist(std::uint32_t term) {
    auto record = membership::fresh_record(9, 7);
    record.floor = {term, 0};
    behind.persist(record);
  }
  void send(net::peer_id to, const wire::message& m) { behind.send(to, wire::encode(9, m)); }
  void note(std::uint64_t round) {
    membership::event e;
    e.round = round;
    behind.note(e);
  }
  void finish() {
    const auto next = work.front();
    work.erase(work.begin());
    next.first();
    next.second();
  }
};

wire::report numbered(std::uint64_t n) {
  wire::report r;
  r.sequence = n;
  return r;
}

const auto diloco = [] { return comm::periodic<>{{.local_steps = 3}}; };

}  // namespace

TEST_CASE("write behind: without a record under way all goes out at once", "[train][fast]") {
  bench b;
  b.send(2, wire::vote{});
  b.note(4);
  CHECK(b.out == std::vector<std::string>{"2:vote", "note 4"});
  CHECK(b.behind.idle());
}

TEST_CASE("write behind: what follows a record leaves after it, in its order; heartbeats do not wait", "[train][fast]") {
  bench b;
  b.persist(1);
  b.send(2, wire::vote{});
  b.note(4);
  b.send(3, wire::heartbeat{});
  CHECK(b.out == std::vector<std::string>{"3:heartbeat"});
  CHECK(b.disk.empty());
  b.finish();
  CHECK(b.out == std::vector<std::string>{"3:heartbeat", "2:vote", "note 4"});
  CHECK(b.disk.size() == 1);
  CHECK(b.behind.idle());
}

TEST_CASE("write behind: records that follow quickly are written once, and each message waits for its own",
          "[train][fast]") {
  bench b;
  b.persist(1);
  b.note(1);
  b.persist(2);
  b.note(2);
  b.persist(3);
  b.note(3);
  b.finish();
  CHECK(b.out == std::vector<std::string>{"note 1"});
  CHECK_FALSE(b.behind.idle());
  b.finish();
  CHECK(b.out == std::vector<std::string>{"note 1", "note 2", "note 3"});
  REQUIRE(b.disk.size() == 2);
  CHECK(b.disk.back().floor.term == 3);
  CHECK(b.work.empty());
}

TEST_CASE("write behind: in place of a report that waits, the last one shows that this peer is there", "[train][fast]") {
  bench b;
  b.persist(0);
  b.send(2, numbered(0));
  CHECK(b.out == std::vector<std::string>{"2:farewell"});
  b.finish();
  b.out.clear();
  b.send(2, numbered(1));
  b.persist(1);
  b.send(2, numbered(2));
  b.send(3, numbered(3));
  CHECK(b.out == std::vector<std::string>{"2:report 1", "2:report 1", "3:report 1"});
  b.finish();
  CHECK(b.out == std::vector<std::string>{"2:report 1", "2:report 1", "3:report 1", "2:report 2", "3:report 3"});
}

TEST_CASE("write behind: a leader whose disk takes too long lets another one lead", "[train][fast]") {
  bench b;
  b.persist(1);
  b.now = time_point{5s};
  b.send(2, wire::heartbeat{});
  b.now = time_point{6s};
  b.send(2, wire::heartbeat{});
  CHECK(b.out == std::vector<std::string>{"2:heartbeat", "2:farewell"});
  CHECK(b.behind.must_resign());
  CHECK_FALSE(b.behind.must_resign());
  b.finish();
  b.send(2, wire::heartbeat{});
  CHECK(b.out.back() == "2:heartbeat");
}

TEST_CASE("write behind: after a failed write nothing that waited is ever said", "[train][fast]") {
  bench b;
  b.persist(1);
  b.send(2, wire::vote{});
  b.good = false;
  b.finish();
  CHECK(b.out == std::vector<std::string>{"failed"});
  b.send(2, wire::heartbeat{});
  b.persist(2);
  CHECK(b.out.size() == 1);
  CHECK(b.work.empty());
  CHECK(b.behind.over());
  CHECK_FALSE(b.behind.idle());
}

TEST_CASE("write behind: an orderly end writes what is left, and says it", "[train][fast]") {
  bench b;
  b.persist(1);
  b.send(2, wire::vote{});
  b.behind.flush([](const auto& what) { what(); }, [&] { b.work.back().first(); });
  CHECK(b.out == std::vector<std::string>{"2:vote"});
  CHECK(b.disk.size() == 1);
}

TEST_CASE("write behind: a disk that stands still for 30 s costs its peer nobody's company, and the others no round",
          "[train][fast]") {
  const std::uint32_t victim = GENERATE(0U, 2U);  // the leader, and a member
  support::elastic_options o;
  o.peers = 4;
  o.rounds = 200;
  std::vector<std::string> said;
  o.trace = [&](std::string_view line) { said.emplace_back(line); };
  support::elastic_cluster cluster{diloco, o};
  // The record's disk: the trainer, which waits for its own writes without the lock, finds it as quick as ever.
  bool stands_still = false;
  cluster.disk(victim)->set_timing({.sync = 30s});
  cluster.disk(victim)->set_waiter([&](duration d) {
    const auto& machine = cluster.world().shared().net.at(victim);
    const bool record = cluster.world().running() == nullptr || machine.locks != 0 || machine.aside != nullptr;
    if (record && std::exchange(stands_still, false)) cluster.world().wait_for_disk(victim, d);
  });
  cluster.world().at({10s}, [&] { stands_still = true; });
  cluster.boot();
  std::uint64_t before = 0;
  std::uint64_t meanwhile = 0;
  cluster.world().at({12s}, [&] { before = cluster.commits().size(); });
  cluster.world().at({30s}, [&] { meanwhile = cluster.commits().size(); });
  REQUIRE(cluster.run());
  CHECK(cluster.violation().value_or("") == "");
  CHECK_FALSE(stands_still);
  CHECK(before > 5);
  CHECK(meanwhile > before + 10);
  for (const std::string& line : said) {
    INFO(line);
    CHECK(line.find("silent") == std::string::npos);
  }
}
