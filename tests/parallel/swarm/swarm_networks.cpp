// SPDX-License-Identifier: Apache-2.0
// A swarm over real sockets: peers are threads with two fabrics each, one for the membership of their stage.
#include <causeway/parallel/swarm.hpp>

#include <causeway/io/file.hpp>
#include <causeway/net/asio_fabric.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <latch>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "support/swarm_gpt.hpp"
#include "support/temporary_folder.hpp"

using namespace causeway;
using namespace std::chrono_literals;

namespace {

struct closed {};  // thrown through a peer that is to go

/// Peers of three stages; the middle one has three.
class tcp_swarm {
 public:
  static constexpr std::uint32_t stages = 3;
  const std::vector<std::uint32_t> stage_of{0, 0, 1, 1, 1, 2};
  const support::gpt_job job{stages};
  const support::swarm_schedule schedule{.steps = 5, .rate = support::gpt_rate, .clip_norm = support::gpt_clip_norm};

  struct peer {
    support::named_parameters parameters;
    std::map<std::uint64_t, double> losses, evaluated;  // by step
    std::string error;
  };
  std::vector<peer> peers = std::vector<peer>(stage_of.size());

  /// `victim` goes without a word: once it has taken a step and sent so many more tensors to other stages.
  void run(std::size_t victim = SIZE_MAX, int sends = 0) {
    std::vector<support::swarm_seat> seats;
    for (std::size_t p = 0; p < peers.size(); ++p) seats.push_back(seat(p, p == victim ? sends : -1));
    for (std::size_t p = 0; p < peers.size(); ++p) introduce(seats, p);
    std::latch over{static_cast<std::ptrdiff_t>(peers.size())};
    std::vector<std::thread> threads;
    for (std::size_t p = 0; p < peers.size(); ++p) {
      threads.emplace_back([this, p, &over, seat = std::move(seats[p])]() mutable { live(p, std::move(seat), over); });
    }
    seats.clear();
    for (auto& t : threads) t.join();
  }

 private:
  std::shared_ptr<net::fabric> fabric(std::uint64_t run, std::size_t p) {
    net::fabric_options o;
    o.run_id = run;
    o.id = p + 1;
    return net::open_fabric(net::endpoint{}, o).value();
  }

  support::swarm_seat seat(std::size_t p, int sends) {
    const auto dies = [this, p, left = sends](support::fabric_call c) mutable {
      if (c == support::fabric_call::send && !peers[p].losses.empty() && left-- == 0) throw closed{};
    };
    auto mortal = std::make_shared<support::counted_fabric>(fabric(99, p), dies);
    support::swarm_seat s{fabric(100 + stage_of[p], p), std::move(mortal), io::any_storage{io::posix_storage{}}};
    s.member.folder = folder_ / std::to_string(p);
    s.member.protocol.run = 100 + stage_of[p];
    s.member.protocol.expected = static_cast<std::uint32_t>(std::count(stage_of.begin(), stage_of.end(), stage_of[p]));
    s.member.secret = p + 1;
    s.options.run = 99;
    s.options.stage = stage_of[p];
    s.options.stages = stages;
    s.options.micro_batches = schedule.micro_batches;
    s.options.heartbeat = 100ms;
    return s;
  }

  // The first peer of a stage founds its membership.
  void introduce(std::vector<support::swarm_seat>& seats, std::size_t p) const {
    for (std::size_t q = 0; q < peers.size(); ++q) {
      if (q != p) seats[p].options.dial.push_back(seats[q].swarm->address());
      if (q < p && stage_of[q] == stage_of[p]) seats[p].member.dial.push_back(seats[q].mates->address());
    }
  }

  void live(std::size_t p, support::swarm_seat seat, std::latch& over) {
    const std::int64_t first = stage_of[p];
    const auto body = [&](auto& trainer, auto&) -> result<void> {
      while (trainer.context().step() < schedule.steps) {
        const std::uint64_t now = trainer.context().step();
        const auto other = job.batch(schedule, support::evaluation_step(now));
        CAUSEWAY_ASSIGN(peers[p].evaluated[now], trainer.evaluate(other.view()));
        const auto b = job.batch(schedule, now);
        CAUSEWAY_ASSIGN(const auto report, trainer.step(b.view()));
        peers[p].losses[report.step - 1] = report.loss;
      }
      peers[p].parameters = support::parameters_of(trainer.model().parameters());
      over.arrive_and_wait();  // stays to help those who are behind
      return {};
    };
    try {
      const auto outcome = support::take_seat(std::move(seat), stage::routing::least_load{},
                                              job.make(nn::model_part{nn::block_range{first, first + 1}}), schedule, body);
      if (outcome) return;
      peers[p].error = outcome.error().text();
    } catch (const closed&) {
      peers[p].error = "closed";
    }
    over.count_down();
  }

  causeway::test::temporary_folder folder_;
};

void check_like_unsplit(const tcp_swarm& swarm, std::size_t except = SIZE_MAX) {
  const auto want = support::unsplit(swarm.job, swarm.schedule);
  for (std::size_t p = 0; p < swarm.peers.size(); ++p) {
    if (p == except) continue;
    INFO("peer " << p << ": " << swarm.peers[p].error);
    CHECK(support::distance(swarm.peers[p].parameters, want) < 1e-5);
    for (const auto& [step, loss] : swarm.peers[p].losses) CHECK(loss == Approx(want.losses[step]).epsilon(1e-6));
    for (const auto& [step, loss] : swarm.peers[p].evaluated) CHECK(loss == Approx(want.evaluated[step]).epsilon(1e-6));
  }
}

}  // namespace

TEST_CASE("swarm over TCP: a GPT's losses and parameters are those of the unsplit one", "[parallel][fast]") {
  tcp_swarm swarm;
  swarm.run();
  check_like_unsplit(swarm);
}

TEST_CASE("swarm over TCP: one peer of three is closed in the middle, and nothing is lost", "[parallel][fast]") {
  for (const int sends : {0, 4}) {
    tcp_swarm swarm;
    swarm.run(3, sends);
    REQUIRE(swarm.peers[3].error == "closed");
    check_like_unsplit(swarm, 3);
  }
}
