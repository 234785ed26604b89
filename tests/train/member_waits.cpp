// SPDX-License-Identifier: Apache-2.0
#include <causeway/train/member_waits.hpp>

#include <causeway/comm/periodic.hpp>

#include <algorithm>
#include <chrono>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "support/catch.hpp"
#include "support/elastic.hpp"

using namespace causeway;
using namespace std::chrono_literals;

namespace {

const auto diloco = [] { return comm::periodic<>{{.local_steps = 3}}; };

/// Collects what is logged.
struct said {
  std::vector<std::string> lines;
  std::function<void(std::string_view)> sink() {
    return [this](std::string_view line) { lines.emplace_back(line); };
  }
  [[nodiscard]] bool about(std::string_view part) const {
    return std::any_of(lines.begin(), lines.end(), [&](const auto& l) { return l.find(part) != std::string::npos; });
  }
};

}  // namespace

TEST_CASE("member: where members wait for ever, a newcomer that finds nobody ends, and they do not", "[train][fast]") {
  support::elastic_options o{.peers = 3, .rounds = 400};
  o.expected = 2;
  support::elastic_cluster cluster{diloco, o};
  cluster.boot(0);
  cluster.boot(1);
  cluster.run(5s);
  cluster.world().kill(0);
  cluster.world().kill(1);
  cluster.boot(2);
  cluster.world().restart(1);  // alone, it is no quorum
  cluster.world().partition({1}, {0, 2});
  cluster.run(9min);
  CHECK(cluster.error(2).empty());
  cluster.run(11min);
  CHECK(cluster.error(2).find("[unreachable]") != std::string::npos);
  CHECK(cluster.error(2).find("start the members of its last round again first") != std::string::npos);
  cluster.run(2h);
  CHECK(cluster.error(1).empty());
  // It is started again until there is a run, which it joins.
  cluster.world().heal({1}, {0, 2});
  cluster.world().restart(0);
  CHECK(cluster.run(3h));
}

TEST_CASE("member: a newcomer that finds nobody ends when its patience does, and says what to do", "[train][fast]") {
  said log;
  support::elastic_options o{.peers = 3, .rounds = 400, .patience = 20s};
  o.expected = 2;
  o.trace = log.sink();
  support::elastic_cluster cluster{diloco, o};
  cluster.boot(0);
  cluster.boot(1);
  cluster.run(5s);
  cluster.world().kill(0);
  cluster.world().kill(1);
  cluster.boot(2);
  cluster.run(24s);
  CHECK(cluster.error(2).empty());
  CHECK(log.about("waiting since 5 s: joining"));
  cluster.run(26s);
  CHECK(cluster.error(2).find("[unreachable]") != std::string::npos);
  CHECK(cluster.error(2).find("join again at the address of a peer that runs") != std::string::npos);
}
