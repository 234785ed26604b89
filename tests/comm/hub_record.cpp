// SPDX-License-Identifier: Apache-2.0
#include <causeway/comm/hub_record.hpp>

#include <causeway/presets/asynchronous.hpp>

#include <algorithm>
#include <string>
#include <vector>

#include "support/blocky.hpp"
#include "support/catch.hpp"
#include "support/elastic.hpp"

using namespace causeway;
using namespace causeway::comm::detail;
using namespace std::chrono_literals;

TEST_CASE("hub record: the hub is who was pushed to last, else the first", "[comm][fast]") {
  const auto is = [](const chosen_hub& hub, net::peer_index peer, std::uint64_t time) {
    return hub.peer == peer && hub.time == time;
  };
  const std::vector<hub_claim> newcomers(3);
  CHECK(is(choose_hub(newcomers, 5), 0, 5));
  const std::vector<hub_claim> reign{{.name = 7}, {.name = 8, .serves = 5, .follows = 5}, {.name = 9, .follows = 5}};
  CHECK(is(choose_hub(reign, 6), 1, 5));
  const std::vector<hub_claim> lost{{.name = 7}, {.name = 9, .follows = 5}};
  CHECK(is(choose_hub(lost, 6), 0, 6));
  // An heir was pushed to in an attempt that failed: the one before has some of the same pushes, and is the hub no more.
  const std::vector<hub_claim> both{{.name = 8, .serves = 5, .follows = 5}, {.name = 9, .serves = 6, .follows = 6}};
  CHECK(is(choose_hub(both, 7), 1, 6));
  const std::vector<hub_claim> back{{.name = 8, .serves = 5, .follows = 5}, {.name = 7, .follows = 6}};
  CHECK(is(choose_hub(back, 7), 0, 7));
}

namespace {

struct one_run {
  std::uint64_t bytes = 0;
  std::size_t records = 0;
  std::vector<float> parameters;
};

/// Three peers, the hub of which is killed `at` a time; never, where that is 0.
one_run run_of(std::uint32_t local_steps, duration at = 0s, std::vector<std::string>* lines = nullptr) {
  const auto make = [=] {
    return presets::make(presets::decoupled_diloco_options{
        .local_steps = local_steps, .fragments = 2, .overlap_steps = 1, .outer_momentum = 0.5F, .record_samples = 48});
  };
  support::elastic_options o{.peers = 3, .steps_per_round = 16, .rounds = 6, .size = 4};
  if (lines != nullptr) o.trace = [=](std::string_view text) { lines->emplace_back(text); };
  support::elastic_cluster<decltype(make), optim::sgd, support::blocky> cluster{make, o};
  cluster.boot();
  if (at > 0s) {
    cluster.run(at);
    cluster.world().kill(0);
    cluster.world().after(1s, [&] { cluster.world().restart(0); });
  }
  cluster.run(10min);
  INFO(cluster.violation().value_or("no violation"));
  REQUIRE(!cluster.violation());
  REQUIRE(cluster.finished() == 3);
  for (std::uint32_t host = 1; host < 3; ++host) {
    const bool alike = cluster.parameters(host) == cluster.parameters(0);
    CHECK(alike);
  }
  return {cluster.bytes_sent(), cluster.commits().size(), cluster.parameters(0)};
}

}  // namespace

TEST_CASE("hub record: peers push and pull from one record to the next", "[comm][fast]") {
  const one_run quick = run_of(2);
  const one_run never = run_of(1000);  // but in a record
  CHECK(quick.records == never.records);
  // In each reign three peers take 8 steps: about 2 clients, 2 fragments, 4 answers of half of the parameters at 4 bytes.
  const std::size_t answers = (quick.records - 2) * 2 * 3 * quick.parameters.size() * sizeof(float);
  CHECK(quick.bytes > never.bytes + answers);
  CHECK(quick.parameters != never.parameters);
}

TEST_CASE("hub record: without its hub a run goes on, and the peers say so", "[comm][fast]") {
  std::vector<std::string> lines;
  const one_run calm = run_of(2);
  const one_run lost = run_of(2, 1s, &lines);
  CHECK(lost.parameters.size() == calm.parameters.size());
  const auto says = [](const std::string& line) {
    return line.find("the hub is out of reach (peer_lost): this peer trains on, and pushes again at the next record") !=
           std::string::npos;
  };
  CHECK(std::count_if(lines.begin(), lines.end(), says) == 2);
}

TEST_CASE("hub record: without a number of samples it says what to set", "[comm][fast]") {
  const auto make = [] { return presets::make(presets::decoupled_diloco_options{.fragments = 2}); };
  support::elastic_cluster<decltype(make), optim::sgd, support::blocky> cluster{make, {.peers = 1, .size = 4}};
  cluster.boot();
  cluster.run(500ms);
  CHECK(cluster.finished() == 0);
  CHECK(cluster.error(0).find("record_samples is 0, but peers come and go: say how many") != std::string::npos);
}
