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

TEST_CASE("hub record: the hub is who was pushed to last, else the first", "[comm][fast]") {
  const auto is = [](const chosen_hub& hub, net::peer_index peer, std::uint64_t time) {
    return hub.peer == peer && hub.time == time;
  };
  const std::vector<hub_claim> newcomers(3);
  CHECK(is(choose_hub(newcomers, 5), 0, 5));
  const std::vector<hub_claim> reign{{}, {.serves = 5, .follows = 5}, {.follows = 5}};
  CHECK(is(choose_hub(reign, 6), 1, 5));
  const std::vector<hub_claim> lost{{}, {.follows = 5}};
  CHECK(is(choose_hub(lost, 6), 0, 6));
  // An heir was pushed to in an attempt that failed: the one before has some of the same pushes, and is the hub no more.
  const std::vector<hub_claim> both{{.serves = 5, .follows = 5}, {.serves = 6, .follows = 6}};
  CHECK(is(choose_hub(both, 7), 1, 6));
  const std::vector<hub_claim> back{{.serves = 5, .follows = 5}, {.follows = 6}};
  CHECK(is(choose_hub(back, 7), 0, 7));
  // Nobody has pushed to a hub of an attempt that is still to come.
  const std::vector<hub_claim> ahead{{}, {.serves = 5, .follows = 5}, {.serves = 900, .follows = 900}};
  CHECK(is(choose_hub(ahead, 6), 1, 5));
}

TEST_CASE("hub record: a newcomer begins where more than half of the peers say that they are", "[comm][fast]") {
  constexpr std::uint64_t lie = UINT64_MAX;
  const auto steps = [](std::vector<std::uint64_t> said, std::uint64_t before) {
    std::vector<hub_claim> claims;
    for (const std::uint64_t s : said) claims.push_back({.steps = s});
    return common_steps(claims, before);
  };
  CHECK(steps({40}, 0) == 40);
  CHECK(steps({40, 30, 50}, 0) == 40);
  CHECK(steps({40, 30, lie}, 0) == 40);
  CHECK(steps({lie, 30}, 0) == 30);
  CHECK(steps({40, 0, 50}, 0) == 40);
  CHECK(steps({0, 0, lie}, 20) == 20);  // newcomers take no one back
  CHECK(steps({}, 20) == 20);
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
