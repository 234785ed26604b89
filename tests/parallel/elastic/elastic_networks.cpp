// SPDX-License-Identifier: Apache-2.0
// Elastic pipelines over real sockets: peers are threads with a fabric each.
#include <causeway/parallel/elastic_pipeline.hpp>

#include <causeway/io/file.hpp>
#include <causeway/net/asio_fabric.hpp>
#include <causeway/stage/recovery_redundant_forward.hpp>
#include <causeway/stage/recovery_reroute.hpp>
#include <causeway/train/member.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <latch>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "parallel/elastic/elastic_world.hpp"
#include "support/catch.hpp"
#include "support/temporary_folder.hpp"

namespace causeway {
namespace {

struct tcp_peer {
  std::map<std::string, std::vector<float>> parameters;
  std::map<std::uint64_t, double> losses;
  std::string error;
};

/// Trains on `o.hosts` peers; peer `leaver` goes without a word when it has made `leaves_after` steps.
template <class Recovery>
std::vector<tcp_peer> train_over_tcp(const support::elastic_world_options& o, const Recovery& recovery,
                                     std::uint32_t leaver, std::uint64_t leaves_after) {
  const test::temporary_folder folder;
  std::vector<std::shared_ptr<net::fabric>> fabrics;
  for (std::uint32_t p = 0; p < o.hosts; ++p) {
    net::fabric_options fo;
    fo.run_id = 77;
    fo.id = p + 1;
    fabrics.push_back(net::open_fabric(net::endpoint{}, fo).value());
  }
  std::vector<member_options> members(o.hosts);
  for (std::uint32_t p = 0; p < o.hosts; ++p) {
    members[p].folder = folder / std::to_string(p);
    members[p].protocol.run = 77;
    members[p].protocol.expected = o.hosts;
    members[p].enters_afresh = true;
    members[p].secret = p + 1;
    for (std::uint32_t q = 0; q < p; ++q) members[p].dial.push_back(fabrics[q]->address());
  }
  std::vector<tcp_peer> peers(o.hosts);
  std::latch over{static_cast<std::ptrdiff_t>(o.hosts)};
  const auto train = [&](std::uint32_t p, std::shared_ptr<net::fabric> fabric) -> result<void> {
    CAUSEWAY_ASSIGN(auto below, member::make(std::move(fabric), io::any_storage{io::posix_storage{}}, members[p]));
    const auto group = std::make_shared<pipeline_group>(std::move(below));
    auto t = support::elastic_trainer(o, group, {}, support::with(recovery)({o.micro_batches}));
    CAUSEWAY_TRY(t.start());
    while (t.context().step() < o.steps) {
      const std::uint64_t step = t.context().step();
      if (p == leaver && step == leaves_after) return fail(errc::cancelled, "test", "gone");
      const support::token_batch b{0, step, o.micro_batches};
      CAUSEWAY_ASSIGN(const auto report, t.step(b.view()));
      if (!report.by_others) peers[p].losses[report.step] = report.loss;
    }
    support::detail::collect(t.model().parameters(), peers[p].parameters);
    over.arrive_and_wait();  // stays to help those who are behind
    return {};
  };
  std::vector<std::thread> threads;
  for (std::uint32_t p = 0; p < o.hosts; ++p) {
    threads.emplace_back([&, p, fabric = std::move(fabrics[p])]() mutable {
      if (const auto outcome = train(p, std::move(fabric)); !outcome) {
        peers[p].error = outcome.error().text();
        over.count_down();
      }
    });
  }
  for (auto& t : threads) t.join();
  return peers;
}

template <class Recovery>
void check_over_tcp(const Recovery& recovery) {
  support::elastic_world_options o;
  o.steps = 5;
  const std::uint32_t leaver = GENERATE(UINT32_MAX, 0U, 3U);
  const auto whole = support::elastic_world{o, support::with(recovery)}.unsplit();
  const auto peers = train_over_tcp(o, recovery, leaver, 2);
  std::map<std::string, bool> seen;
  for (std::uint32_t p = 0; p < o.hosts; ++p) {
    if (p == leaver) continue;
    INFO("peer " << p << ": " << peers[p].error);
    CHECK(peers[p].error.empty());
    CHECK(peers[p].losses.size() == o.steps);
    for (const auto& [step, loss] : peers[p].losses) CHECK(loss == Approx(whole.losses.at(step - 1)).epsilon(1e-5));
    for (const auto& [name, values] : peers[p].parameters) {
      seen[name] = true;
      const auto& want = whole.parameters.at(name);
      float worst = 0;
      for (std::size_t i = 0; i < want.size(); ++i) worst = std::max(worst, std::abs(values[i] - want[i]));
      CHECK(worst < 5e-5F);
    }
  }
  CHECK(seen.size() == whole.parameters.size());
}

}  // namespace

TEST_CASE("elastic pipelines over TCP: the unsplit model's result, also when a peer goes in the middle",
          "[parallel][elastic][fast]") {
  check_over_tcp(stage::recovery::redundant_forward{2});
}

TEST_CASE("elastic pipelines over TCP: rerouted micro-batches find their way", "[parallel][elastic][fast]") {
  check_over_tcp(stage::recovery::reroute{2});
}

}  // namespace causeway
