// SPDX-License-Identifier: Apache-2.0
// One peer that is broken, hangs or never votes, under fault::quorum: the others find out which, and go on without it.

#include <causeway/fault/quorum.hpp>

#include <causeway/comm/periodic.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "support/catch.hpp"
#include "support/elastic.hpp"

using namespace causeway;
using namespace std::chrono_literals;

namespace {

constexpr float not_a_number = std::numeric_limits<float>::quiet_NaN();

const auto diloco = [] { return comm::periodic<>{{.local_steps = 3}}; };

struct said {
  std::vector<std::string> lines;
  std::function<void(std::string_view)> sink() {
    return [this](std::string_view line) { lines.emplace_back(line); };
  }
  [[nodiscard]] std::ptrdiff_t about(std::string_view part) const {
    return std::count_if(lines.begin(), lines.end(), [&](const auto& l) { return l.find(part) != std::string::npos; });
  }
};

/// Of the parameters on all samples of `budget`.
double loss_of(const std::vector<float>& parameters, std::uint64_t budget) {
  double loss = 0;
  for (std::uint64_t t = 0; t < budget; ++t) {
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      const double pull =
          double(parameters[i]) - double(support::quadratic::centre(static_cast<std::int32_t>(t), std::int64_t(i)));
      loss += 0.5 * pull * pull;
    }
  }
  return loss / static_cast<double>(budget);
}

/// Writes NaN into every data message of each tenth round.
support::misbehaviour spoils_messages() {
  return {.alters = [](const net::message_id& id, std::span<std::byte> bytes) {
    if (id.step % 10 == 3 && bytes.size() >= sizeof not_a_number)
      std::memcpy(bytes.data(), &not_a_number, sizeof not_a_number);
  }};
}

template <class Cluster>
void nobody_ended(Cluster& cluster, std::uint32_t peers) {
  INFO(cluster.violation().value_or("no violation"));
  REQUIRE(!cluster.violation());
  for (std::uint32_t i = 0; i < peers; ++i) {
    INFO("host " << i << ": " << cluster.error(i));
    CHECK(cluster.error(i).empty());
  }
  REQUIRE(cluster.finished() == peers);
  CHECK(cluster.checker().samples().done() == cluster.budget());
}

}  // namespace

TEST_CASE("quorum: a peer that sends NaN without knowing it is named and left out, and nobody else is", "[fault][fast]") {
  for (const std::int64_t size : {37, 17000}) {  // each peer gets all of everybody's row; each sums a part of it
    said log;
    support::elastic_options o{.peers = 5, .rounds = 12, .size = size};
    o.trace = log.sink();
    o.misbehaves = [](sim::process& p) { return p.host() == 3 ? spoils_messages() : support::misbehaviour{}; };
    support::elastic_cluster cluster{diloco, o};
    cluster.boot();
    cluster.run(10min);
    nobody_ended(cluster, 5);
    CHECK(log.about("peer " + std::to_string(cluster.id(3)) + " sits out") >= 1);
    for (const std::uint32_t other : {0U, 1U, 2U, 4U}) {
      INFO("host " << other << " with " << size << " parameters");
      CHECK(log.about("peer " + std::to_string(cluster.id(other)) + " sits out") == 0);
    }
  }
}

TEST_CASE("quorum: one of eight spoils every tenth round of 200, and the others lose no round and no quality",
          "[fault][slow]") {
  const auto run = [](std::uint32_t peers, auto&& trouble, auto&& check) {
    support::elastic_options o{.peers = peers, .rounds = 200 * 8 / peers};
    trouble(o);
    support::elastic_cluster cluster{diloco, o};
    cluster.boot();
    cluster.run(2h);
    nobody_ended(cluster, peers);
    check(cluster);
    return loss_of(cluster.parameters(0), cluster.budget());
  };
  const auto nothing = [](auto&) {};
  const double seven = run(7, nothing, nothing);
  const auto no_round_lost = [](auto& cluster) {
    // Whoever is left out brings its samples to a later round, so there may be some more rounds, never fewer.
    CHECK(cluster.commits().rbegin()->first == cluster.commits().size() - (cluster.commits().contains(0) ? 1 : 0));
    CHECK(cluster.commits().rbegin()->first >= 200);
    CHECK(cluster.commits().rbegin()->first <= 230);
  };
  const double knows = run(
      8,
      [](auto& o) {
        o.spoils = [last = std::uint64_t{0}](std::uint32_t host, std::uint64_t round, std::span<float> parameters) mutable {
          if (host != 5 || round % 10 != 9 || std::exchange(last, round) == round) return;
          parameters[3] = not_a_number;
        };
      },
      no_round_lost);
  const double silent = run(
      8,
      [](auto& o) {
        o.misbehaves = [](sim::process& p) { return p.host() == 5 ? spoils_messages() : support::misbehaviour{}; };
      },
      no_round_lost);
  INFO("seven peers " << seven << ", own check " << knows << ", without one " << silent);
  CHECK(std::abs(knows - seven) <= 0.01 * seven);
  CHECK(std::abs(silent - seven) <= 0.01 * seven);
}

TEST_CASE("quorum: a peer whose trainer hangs in an exchange sits out alone, and the run goes on", "[fault][fast]") {
  said log;
  support::elastic_options o{.peers = 5, .rounds = 4000, .step_time = 1s, .size = 17000};
  o.trace = log.sink();
  o.misbehaves = [](sim::process& p) {
    if (p.host() != 2) return support::misbehaviour{};
    return support::misbehaviour{.hangs = [&p] {
      if (p.now() > time_point{20s}) p.sleep(1h);
    }};
  };
  support::elastic_cluster cluster{diloco, o};
  cluster.boot();
  cluster.run(20s);
  log.lines.clear();
  cluster.run(4min);
  INFO(cluster.violation().value_or("no violation"));
  REQUIRE(!cluster.violation());
  CHECK(cluster.checker().progressed(time_point{3min}, time_point{4min}));
  CHECK(log.about("peer " + std::to_string(cluster.id(2)) + " sits out") >= 1);
  for (const std::uint32_t other : {0U, 1U, 3U, 4U}) {
    CHECK(log.about("peer " + std::to_string(cluster.id(other)) + " sits out") == 0);
  }
}

TEST_CASE("quorum: who takes part in rounds and votes for none of them in time sits out ever longer", "[fault][fast]") {
  said log;
  sim::process* slow = nullptr;
  support::elastic_options o{.peers = 5, .rounds = 4000, .step_time = 1s};
  o.trace = log.sink();
  o.misbehaves = [&](sim::process& p) {
    if (p.host() == 2) slow = &p;
    return support::misbehaviour{};
  };
  o.dies_at = [&](std::uint32_t host, std::string_view point) {
    if (host == 2 && point == "before_store" && slow->now() > time_point{5s}) slow->sleep(30s);
    return false;
  };
  support::elastic_cluster cluster{diloco, o};
  cluster.boot();
  cluster.run(10min);
  INFO(cluster.violation().value_or("no violation"));
  REQUIRE(!cluster.violation());
  CHECK(log.about("peer " + std::to_string(cluster.id(2)) + " sits out 1 attempt: it takes part") >= 1);
  CHECK(log.about("peer " + std::to_string(cluster.id(2)) + " sits out 2 attempts: it takes part") >= 1);
  CHECK(log.about("peer " + std::to_string(cluster.id(2)) + " sits out 4 attempts: it takes part") >= 1);
  CHECK(cluster.checker().progressed(time_point{9min}, time_point{10min}));
}
