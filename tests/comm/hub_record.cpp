// SPDX-License-Identifier: Apache-2.0
#include <causeway/comm/hub_record.hpp>

#include <causeway/presets/asynchronous.hpp>

#include <algorithm>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "support/blocky.hpp"
#include "support/catch.hpp"
#include "support/elastic.hpp"

using namespace causeway;
using namespace causeway::comm::detail;
using namespace std::chrono_literals;

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

namespace {

const auto one_hub = [] {
  return presets::make(presets::decoupled_diloco_options{
      .local_steps = 2, .fragments = 2, .overlap_steps = 1, .outer_momentum = 0.5F, .record_samples = 48, .most_batch = 2});
};
using liar_cluster = support::elastic_cluster<decltype(one_hub), optim::sgd, support::blocky>;

/// Four peers and one that joins later; what peer 2 sends to others goes through `alters`.
struct lied_run {
  std::vector<float> parameters;
  double loss = 0;
  std::vector<std::string> lines{};

  explicit lied_run(std::function<void(const net::message_id&, std::span<std::byte>)> alters) {
    support::elastic_options o{.peers = 5, .expected = 4, .steps_per_round = 16, .rounds = 6, .size = 4, .warmup = 20};
    o.trace = [this](std::string_view text) { lines.emplace_back(text); };
    o.misbehaves = [&](sim::process& p) {
      return p.host() == 2 ? support::misbehaviour{.alters = alters} : support::misbehaviour{};
    };
    liar_cluster cluster{one_hub, o};
    for (std::uint32_t host = 0; host < 4; ++host) cluster.boot(host);
    cluster.run(2s);
    cluster.boot(4);
    cluster.run(10min);
    INFO(cluster.violation().value_or("no violation"));
    REQUIRE(!cluster.violation());
    REQUIRE(cluster.finished() == 5);
    CHECK(cluster.steps_of(4) > 10);
    parameters = cluster.parameters(0);
    for (std::uint32_t host = 1; host < 5; ++host) {
      const bool alike = cluster.parameters(host) == parameters;
      CHECK(alike);
    }
    support::blocky model{4};
    std::copy(parameters.begin(), parameters.end(), model.parameters().values().begin());
    std::vector<std::int32_t> tokens(200);
    for (std::size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<std::int32_t>(1'000'000 + i);
    loss = *model.evaluate(tokens, tokens, 1) / 200;
  }

  [[nodiscard]] std::ptrdiff_t said(std::string_view what) const {
    return std::count_if(lines.begin(), lines.end(),
                         [&](const std::string& line) { return line.find(what) != std::string::npos; });
  }
};

}  // namespace

TEST_CASE("hub record: one peer that claims too many steps moves nobody, not even a newcomer", "[comm][fast]") {
  int lies = 0;
  const lied_run lied{[&](const net::message_id& id, std::span<std::byte> bytes) {
    if (id.channel != collective::channels::state || bytes.size() != sizeof(hub_claim)) return;
    hub_claim claim;
    std::memcpy(&claim, bytes.data(), sizeof claim);
    claim.steps = std::uint64_t{1} << 40U;
    std::memcpy(bytes.data(), &claim, sizeof claim);
    ++lies;
  }};
  CHECK(lies > 10);
  const lied_run honest{[](const net::message_id&, std::span<std::byte>) {}};
  const bool same = lied.parameters == honest.parameters;
  CHECK(same);
}

TEST_CASE("hub record: a push that claims more samples than it can have is refused, and the others train on",
          "[comm][fast]") {
  int lies = 0;
  const lied_run lied{[&](const net::message_id& id, std::span<std::byte> bytes) {
    if (id.channel != hub_channel(0) || bytes.size() < sizeof(push_header)) return;
    push_header h;
    std::memcpy(&h, bytes.data(), sizeof h);
    if (h.word != hub_word::push || h.samples == 0) return;
    h.samples = UINT64_MAX;
    std::memcpy(bytes.data(), &h, sizeof h);
    ++lies;
  }};
  CHECK(lies > 5);
  CHECK(lied.said("its push claims 18446744073709551615 samples in ") >= 5);
  CHECK(lied.said("of which each has at most 2 (axis::quorum::most_batch); give all peers the same batch") >= 5);
  const lied_run honest{[](const net::message_id&, std::span<std::byte>) {}};
  CHECK(honest.said("its push claims") == 0);
  CHECK(lied.loss < 1.1 * honest.loss);
}

TEST_CASE("hub record: without a number of samples it says what to set", "[comm][fast]") {
  const auto make = [] { return presets::make(presets::decoupled_diloco_options{.fragments = 2}); };
  support::elastic_cluster<decltype(make), optim::sgd, support::blocky> cluster{make, {.peers = 1, .size = 4}};
  cluster.boot();
  cluster.run(500ms);
  CHECK(cluster.finished() == 0);
  CHECK(cluster.error(0).find("record_samples is 0, but peers come and go: say how many") != std::string::npos);
}

namespace {

/// Peers that wait for their answers, of which each goes its own speed.
struct waiting_run {
  struct push {
    std::uint32_t steps = 0;
    bool in_record = false;
  };
  std::uint64_t record_samples = 48;
  std::uint32_t local_steps = 2;
  std::vector<double> speeds{1, 1, 1};
  std::uint32_t hub_sleeps = UINT32_MAX;          ///< from its step of this number on the hub takes minutes for one
  std::vector<std::vector<time_point>> begun{3};  ///< by each peer: when it began its steps
  std::vector<push> pushes{};                     ///< of peer 2
  std::size_t records = 0;

  void run() {
    const auto make = [this] {
      return presets::make(presets::async_local_sgd_options{.local_steps = local_steps,
                                                            .period = 3,
                                                            .outer_momentum = 0.5F,
                                                            .percentile = 1,
                                                            .record_samples = record_samples});
    };
    sim::world* world = nullptr;
    support::elastic_options o{.peers = 3, .steps_per_round = 16, .rounds = 6, .size = 4};
    o.watches = [&](std::uint32_t host, auto, auto) {
      begun[host].push_back(world->now());
      if (host == 0 && begun[0].size() == hub_sleeps) world->set_speed(0, 1e-4);
    };
    o.misbehaves = [this](sim::process& p) {
      if (p.host() != 2) return support::misbehaviour{};
      return support::misbehaviour{.alters = [this](const net::message_id& id, std::span<std::byte> bytes) {
        push_header h;
        if (id.channel != hub_channel(0) || bytes.size() < sizeof h) return;
        std::memcpy(&h, bytes.data(), sizeof h);
        if (h.word == hub_word::push) pushes.push_back({h.steps, h.wants_answer == 0});
      }};
    };
    support::elastic_cluster<decltype(make), optim::sgd, support::blocky> cluster{make, o};
    world = &cluster.world();
    for (std::uint32_t host = 0; host < 3; ++host) world->set_speed(host, speeds[host]);
    cluster.boot();
    cluster.run(10min);
    INFO(cluster.violation().value_or("no violation"));
    REQUIRE(!cluster.violation());
    REQUIRE(cluster.finished() == 3);
    records = cluster.commits().size();
  }
  /// Between two steps of a peer, from the `first` on.
  [[nodiscard]] std::vector<double> gaps(std::uint32_t host, std::size_t first = 0) const {
    std::vector<double> all;
    for (std::size_t i = first + 1; i < begun[host].size(); ++i)
      all.push_back(seconds(begun[host][i] - begun[host][i - 1]));
    return all;
  }
};

double longest(const std::vector<double>& gaps) { return *std::max_element(gaps.begin(), gaps.end()); }

}  // namespace

TEST_CASE("hub record: who waits for its answer waits until the hub has looked", "[comm][fast]") {
  waiting_run r{.speeds = {0.25, 1, 1}};
  r.run();
  const auto gaps = r.gaps(1, 16);  // the hub looks every 0.2 s, a peer pushes every 0.1 s
  CHECK(std::count_if(gaps.begin(), gaps.end(), [](double g) { return g > 0.14; }) > std::ssize(gaps) / 3);
  CHECK(longest(gaps) < 0.21);
}

TEST_CASE("hub record: nobody waits for an answer when a record is due", "[comm][fast]") {
  waiting_run r{.local_steps = 1, .speeds = {1, 1, 0.3}};
  r.run();
  CHECK(longest(r.gaps(2)) < 0.3);  // its steps take 0.17 s
}

TEST_CASE("hub record: a hub without samples serves those who still train", "[comm][fast]") {
  waiting_run r{.record_samples = 90, .speeds = {8, 1, 1}};
  r.run();
  CHECK(longest(r.gaps(0)) > 0.5);  // until others have gathered what is left of a record
  CHECK(longest(r.gaps(1)) < 0.1);
  CHECK(longest(r.gaps(2)) < 0.1);
}

TEST_CASE("hub record: a peer keeps the number of steps that its hub gave it", "[comm][fast]") {
  waiting_run r{.record_samples = 90, .local_steps = 8, .speeds = {1, 1, 0.5}};
  r.run();
  std::vector<std::uint32_t> steps;
  for (const auto& p : r.pushes) {
    if (!p.in_record) steps.push_back(p.steps);
  }
  REQUIRE(steps.size() > 5);
  CHECK(steps.size() > r.records / 2);
  CHECK(steps.front() == 8);
  CHECK(std::count(steps.begin(), steps.end(), 4U) == std::ssize(steps) - 1);
}

TEST_CASE("hub record: who waits for a hub that does not answer any more trains on", "[comm][fast]") {
  waiting_run r{.hub_sleeps = 20};
  r.run();
  CHECK(longest(r.gaps(1)) > 1);
  CHECK(longest(r.gaps(1)) < 5);
  const auto gaps = r.gaps(1, 20);
  CHECK(std::count_if(gaps.begin(), gaps.end(), [](double g) { return g > 0.5; }) < std::ssize(gaps) / 8);
}
