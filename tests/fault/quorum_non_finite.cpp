// SPDX-License-Identifier: Apache-2.0
// NaN and infinity under fault::quorum: they cost the contribution of the peer they come from, and nothing else.

#include <causeway/fault/quorum.hpp>

#include <causeway/comm/every_step.hpp>
#include <causeway/comm/periodic.hpp>
#include <causeway/presets/compressed.hpp>
#include <causeway/presets/local_updates.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
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
const auto every_step = [] { return comm::every_step<>{}; };

struct said {
  std::vector<std::string> lines;
  std::function<void(std::string_view)> sink() {
    return [this](std::string_view line) { lines.emplace_back(line); };
  }
  [[nodiscard]] bool about(std::string_view part) const {
    return std::any_of(lines.begin(), lines.end(), [&](const auto& l) { return l.find(part) != std::string::npos; });
  }
};

template <class Cluster>
void all_ended_alike(Cluster& cluster, std::uint32_t peers) {
  INFO(cluster.violation().value_or("no violation"));
  for (std::uint32_t i = 0; i < peers; ++i) {
    INFO("host " << i << ": " << cluster.error(i));
    CHECK(cluster.error(i).empty());
  }
  REQUIRE(!cluster.violation());
  REQUIRE(cluster.finished() == peers);
  CHECK(cluster.checker().samples().done() == cluster.budget());
  for (std::uint32_t i = 1; i < peers; ++i) CHECK(cluster.parameters(i) == cluster.parameters(0));
}

/// Host 2's parameters are spoilt once, in the round after the third.
template <class MakePolicy>
void survives_spoilt_parameters(MakePolicy policy) {
  said log;
  bool spoilt = false;
  support::elastic_options o{.peers = 4, .rounds = 8, .size = 200};
  o.trace = log.sink();
  o.spoils = [&](std::uint32_t host, std::uint64_t round, std::span<float> parameters) {
    if (host != 2 || round < 3 || std::exchange(spoilt, true)) return;
    parameters[7] = not_a_number;
  };
  support::elastic_cluster cluster{policy, o};
  cluster.boot();
  cluster.run(10min);
  CHECK(spoilt);
  all_ended_alike(cluster, 4);
  CHECK(std::all_of(cluster.parameters(2).begin(), cluster.parameters(2).end(), [](float v) { return std::isfinite(v); }));
}

}  // namespace

TEST_CASE("quorum: a NaN in one peer's weights costs that peer's contribution, and nobody's run", "[fault][fast]") {
  survives_spoilt_parameters(diloco);
}

TEST_CASE("quorum: a NaN in one peer's weights under every_step costs one contribution", "[fault][fast]") {
  survives_spoilt_parameters(every_step);
}
