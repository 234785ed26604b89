// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TESTS_PARALLEL_SWARM_SWARM_WORLD_HPP
#define CAUSEWAY_TESTS_PARALLEL_SWARM_SWARM_WORLD_HPP

// A whole swarm in a simulated world: the real trainer, memberships, transfer and disk code, on peers that can be killed.

#include <causeway/collective/channels.hpp>
#include <causeway/sim/disk.hpp>
#include <causeway/sim/world.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "support/distinct_calls.hpp"
#include "support/named_paths.hpp"
#include "support/swarm_seat.hpp"

namespace support {

using namespace std::chrono_literals;

struct swarm_world_options {
  std::vector<std::vector<double>> speeds{{1, 1}, {1, 1}};  ///< by stage: of its peers
  std::uint64_t steps = 3;
  std::int64_t micro_batches = 8;
  std::int64_t blocks_per_stage = 2;
  double block_seconds = 0;  ///< of a host of speed 1; the forward, and each half of the backward
  std::uint64_t seed = 1;
  float rate = 0.01F;
  float clip_norm = 0;
  std::uint32_t local_steps = 0;       ///< and what follows: see swarm_schedule
  std::uint32_t most_local_steps = 0;  ///< that the swarm is told; 0: the same
  bool tells_steps = true;             ///< peers that take local steps know how many the run has
  float outer_rate = 1;
  float momentum = 0;
  causeway::sim::link_options link{.latency = 5ms};
  std::uint32_t window = 2;
  causeway::duration rebalance_every{0};
  int evaluations = 0;                         ///< before every step
  std::optional<std::uint32_t> judged_path{};  ///< whose shared parameters they are of
  std::uint32_t victim = UINT32_MAX;           ///< dies at its `dies_at`th network call
  std::uint64_t dies_at = 0;
  bool once_committed = false;  ///< calls count once all hosts are in a committed round: none is waited for from then on
  std::vector<std::uint32_t> die_with{};  ///< hosts that are killed with it, and come back with it
  std::function<bool(std::uint32_t, std::string_view)> dies_passing{};  ///< the host, when it passes that point of a round
  causeway::duration back_after{0};                                     ///< the victim is started again; 0: not
  std::vector<std::uint32_t> late{};                                    ///< hosts that are not booted with the rest
  /// Before every computation of a block, the host and how many it has done: whether its parameters get a not-a-number.
  std::function<bool(std::uint32_t, std::uint64_t)> spoils{};
  /// Likewise: whether its trainer hangs there, while its network lives.
  std::function<bool(std::uint32_t, std::uint64_t)> hangs{};
  causeway::duration hangs_for = 1h;
  std::function<void(const std::string&)> trace{};  ///< every line that a peer logs
};

/// Stage s of the run has hosts first(s), first(s) + 1, ... `Seat`: what a peer's trainer is made of.
template <class Router = causeway::stage::routing::least_load, class Job = timed_job, class Codec = causeway::stage::plain,
          class Seat = summed_steps>
class swarm_world {
 public:
  explicit swarm_world(swarm_world_options options, Router router = Router{})
      : options_{std::move(options)},
        schedule_{options_.steps,     options_.micro_batches, options_.seed,       options_.rate,
                  options_.clip_norm, options_.local_steps,   options_.outer_rate, options_.momentum},
        job_{options_.blocks_per_stage * stages()},
        router_{std::move(router)},
        world_{world_options()} {
    for (std::uint32_t s = 0; s < stages(); ++s) {
      for (const double speed : options_.speeds[s]) {
        const auto host = world_.add_host({.speed = speed});
        stage_of_.push_back(s);
        disks_.emplace_back(causeway::sim::disk_options{.seed = causeway::mix(options_.seed, host)});
        world_.set_storage(host, causeway::io::any_storage{causeway::io::basic_file_storage{disks_.back()}});
      }
    }
    if (options_.trace) {
      world_.set_log([this](causeway::time_point t, std::uint32_t host, causeway::severity, std::string_view text) {
        options_.trace(std::to_string(causeway::seconds(t.since_start)) + " host " + std::to_string(host) + ": " +
                       std::string{text});
      });
    }
    for (std::uint32_t s = 0; s < stages(); ++s) founders_.push_back(first(s));
    results_.resize(hosts());
  }

  struct result_of_host {
    bool finished = false;
    bool committed = false;  ///< in a committed round, ever
    bool killed = false;     ///< dead, or about to be: a process lives until the end of the moment at which it is killed
    named_parameters parameters;
    std::vector<std::vector<float>> moments;    ///< of its inner optimizer, if that has some
    std::vector<double> losses;                 ///< of the steps that it took
    std::vector<causeway::time_point> ends;     ///< when
    std::map<std::uint64_t, double> evaluated;  ///< before these steps, the last of several
    std::uint64_t missed = 0;                   ///< evaluations whose result was lost
    std::string error;
    std::uint64_t calls = 0;  ///< of the network
    distinct_calls distinct;
    std::uint64_t blocks = 0;     ///< that it has computed, forward or a half of backward
    std::uint64_t bytes = 0;      ///< sent in the swarm: boundaries, and messages
    std::uint64_t exchanged = 0;  ///< bytes of gradients, or of what was moved, sent to the peers of the stage
  };

  [[nodiscard]] std::uint32_t stages() const { return static_cast<std::uint32_t>(options_.speeds.size()); }
  [[nodiscard]] std::uint32_t hosts() const { return static_cast<std::uint32_t>(stage_of_.size()); }
  [[nodiscard]] std::uint32_t first(std::uint32_t stage) const {
    return static_cast<std::uint32_t>(std::find(stage_of_.begin(), stage_of_.end(), stage) - stage_of_.begin());
  }
  causeway::sim::world& world() { return world_; }
  causeway::sim::disk& disk(std::uint32_t host) { return disks_[host]; }
  result_of_host& at(std::uint32_t host) { return results_[host]; }
  [[nodiscard]] std::uint32_t at_stage(std::uint32_t stage) const {
    return static_cast<std::uint32_t>(std::count(stage_of_.begin(), stage_of_.end(), stage));
  }
  [[nodiscard]] std::uint32_t finished() const {
    return static_cast<std::uint32_t>(std::count_if(results_.begin(), results_.end(), [](auto& r) { return r.finished; }));
  }

  void boot() {
    for (std::uint32_t h = 0; h < hosts(); ++h) {
      if (std::find(options_.late.begin(), options_.late.end(), h) == options_.late.end()) boot(h);
    }
  }
  void boot(std::uint32_t host) {
    world_.boot(host, [this](causeway::sim::process& p) { live(p); });
  }
  /// Until all live hosts of `wanted` have finished, or the time is over.
  void run(causeway::duration end = 1h) { world_.run_until(causeway::time_point{end}); }
  std::uint32_t wanted = UINT32_MAX;  ///< hosts that have to finish; the default is all

  /// See support::unsplit.
  [[nodiscard]] swarm_reference unsplit(std::size_t but = SIZE_MAX) const { return support::unsplit(job_, schedule_, but); }
  [[nodiscard]] double distance(std::uint32_t host, const swarm_reference& r) const {
    return support::distance(results_[host].parameters, r);
  }

 private:
  causeway::sim::world_options world_options() const {
    causeway::sim::world_options o;
    o.seed = options_.seed;
    o.link = options_.link;
    return o;
  }
  [[nodiscard]] std::shared_ptr<causeway::net::fabric> fabric(causeway::sim::process& p, std::uint64_t id) {
    return std::make_shared<counted_fabric>(p.make_fabric(id), [this, &p](fabric_call call) {
      result_of_host& r = results_[p.host()];
      if (options_.once_committed && !all_committed()) return;
      r.distinct.note(call, world_.running() == &p, world_.event_count(), disks_[p.host()].operations());
      if (r.calls++ == options_.dies_at && p.host() == options_.victim) kill(p);
    });
  }
  [[nodiscard]] bool all_committed() const {
    return std::all_of(results_.begin(), results_.end(), [](const auto& r) { return r.committed; });
  }
  void kill(causeway::sim::process& p) {
    std::vector<std::uint32_t> all = options_.die_with;
    all.push_back(p.host());
    for (const std::uint32_t h : all) {
      world_.kill(h);
      results_[h].finished = false;
      results_[h].killed = true;
      if (options_.back_after > 0s) world_.after(options_.back_after, [this, h] { world_.restart(h); });
    }
    if (world_.running() == &p) p.sleep(1h);
  }

  causeway::member_options member_options(std::uint32_t host, std::uint32_t stage, bool founds) {
    causeway::member_options o;
    o.protocol.run = causeway::mix(run_id, stage) | 1U;
    o.folder = "member-" + std::to_string(stage);
    o.protocol.expected = 0;
    for (std::uint32_t h = 0; h < hosts(); ++h) {
      if (stage_of_[h] != stage) continue;
      if (std::find(options_.late.begin(), options_.late.end(), h) == options_.late.end()) ++o.protocol.expected;
      if (h != host && !founds) o.dial.push_back(world_.address(h));
    }
    o.secret = causeway::mix(options_.seed, host);
    return o;
  }

  causeway::parallel::swarm_options swarm_options(std::uint32_t host, std::uint32_t stage) {
    causeway::parallel::swarm_options o;
    o.run = run_id;
    o.stage = stage;
    o.stages = stages();
    o.micro_batches = options_.micro_batches;
    o.window = options_.window;
    o.local_steps = options_.most_local_steps > 0 ? options_.most_local_steps : options_.local_steps;
    if (options_.tells_steps) o.steps = options_.steps;
    o.rebalance_every = options_.rebalance_every;
    for (std::uint32_t h = 0; h < hosts(); ++h) {
      if (h != host) o.dial.push_back(second_address(h));
    }
    return o;
  }

  void live(causeway::sim::process& p) {
    while (const auto to = serve(p)) stage_of_[p.host()] = *to;  // asked to serve another stage
  }

  swarm_seat seat(causeway::sim::process& p, std::uint32_t stage) {
    const std::uint32_t host = p.host();
    auto disk = p.storage();
    const std::string folder = "member-" + std::to_string(stage);
    const bool founds = host == founders_[stage] && !disk.read(folder + "/record");
    auto member = member_options(host, stage, founds);
    const auto fresh = causeway::mix(options_.seed, host + 1 + 1000 * stage, p.incarnation()) | 1U;
    const auto id = causeway::member_identity(p.storage(), folder, member.protocol.run, fresh);
    member.passing = [this, &p](std::string_view point) {
      if (point == "committed") results_[p.host()].committed = true;
      if (options_.dies_passing && options_.dies_passing(p.host(), point)) kill(p);
    };
    auto mates = fabric(p, id);
    return {mates, fabric(p, id), p.storage(), std::move(member), swarm_options(host, stage), p.clock(), p.log()};
  }

  std::optional<std::uint32_t> serve(causeway::sim::process& p) {
    using namespace causeway;
    const std::uint32_t stage = stage_of_[p.host()];
    result_of_host& me = results_[p.host()];
    me.finished = me.killed = false;
    std::optional<std::uint32_t> moves_to;
    const nn::block_range range{stage * options_.blocks_per_stage, (stage + 1) * options_.blocks_per_stage};
    causeway::parameter_store* store = nullptr;
    const block_seconds time{options_.block_seconds, options_.block_seconds, options_.block_seconds, [&](double s) {
                               if (options_.spoils && store != nullptr && options_.spoils(p.host(), me.blocks++))
                                 store->view().values[0] = NAN;
                               if (options_.hangs && options_.hangs(p.host(), me.blocks++)) p.sleep(options_.hangs_for);
                               if (s > 0) p.compute(std::chrono::duration_cast<duration>(std::chrono::duration<double>(s)));
                             }};
    auto here = seat(p, stage);
    const auto fabric = here.swarm;
    const auto mates = std::static_pointer_cast<counted_fabric>(here.mates);
    const auto outcome = Seat::template take<Codec>(
        std::move(here), router_, job_.make(nn::model_part{range}, time), schedule_, [&](auto& trainer, auto& peer) {
          store = &trainer.model().parameters();
          const auto trained = train(p, trainer, me);
          me.bytes = fabric->stats().bytes_sent;
          me.exchanged = mates->sent_on(causeway::collective::channels::updates);
          me.parameters.clear();
          collect_paths(trainer, me.parameters);
          if constexpr (requires { trainer.context().inner().moments(); }) {
            me.moments.clear();
            for (const auto m : trainer.context().inner().moments()) me.moments.emplace_back(m.begin(), m.end());
          }
          if (trained) rest(p, me);
          moves_to = peer.asked_to_move();
          return trained;
        });
    if (!outcome) me.error = outcome.error().text();
    return moves_to;
  }

  void rest(causeway::sim::process& p, result_of_host& me) {
    me.finished = !me.killed;
    if (finished() >= std::min(wanted, hosts())) world_.end_run();
    p.sleep(10h);  // stays to help those who are behind
  }

  template <class Trainer>
  causeway::result<void> train(causeway::sim::process& p, Trainer& trainer, result_of_host& me) {
    while (trainer.context().step() < options_.steps) {
      for (int k = 0; k < options_.evaluations; ++k) CAUSEWAY_TRY(evaluate(trainer, me));
      const auto b = job_.batch(schedule_, trainer.context().step());
      CAUSEWAY_ASSIGN(const auto report, trainer.step(b.view()));
      if (report.step == 0) continue;               // it went back to where it had begun
      if (report.step > options_.steps) return {};  // it took over what the run had ended with, a round that was cut short
      me.losses.resize(options_.steps);
      me.losses[report.step - 1] = report.loss;
      me.ends.push_back(p.now());
    }
    return {};
  }

  template <class Trainer>
  causeway::result<void> evaluate(Trainer& trainer, result_of_host& me) {
    const std::uint64_t step = trainer.context().step();
    const auto b = job_.batch(schedule_, evaluation_step(step));
    const auto judge = [&]() -> causeway::result<double> {
      if constexpr (requires { trainer.parallel().evaluate(trainer.context(), b.view(), options_.judged_path); })
        return trainer.parallel().evaluate(trainer.context(), b.view(), options_.judged_path);
      return trainer.evaluate(b.view());
    };
    const auto loss = judge();
    if (loss) me.evaluated[step] = *loss;
    if (!loss && loss.error().code != causeway::errc::cancelled) return loss.error();
    me.missed += loss ? 0 : 1;
    return {};
  }

  [[nodiscard]] std::string second_address(std::uint32_t host) {
    std::string a = world_.address(host);
    a.back() = '2';
    return a;
  }

  static constexpr std::uint64_t run_id = 4711;

  swarm_world_options options_;
  swarm_schedule schedule_;
  Job job_;
  Router router_;
  std::vector<std::uint32_t> stage_of_;
  std::vector<std::uint32_t> founders_;  // of the stages
  std::vector<result_of_host> results_;
  std::deque<causeway::sim::disk> disks_;
  causeway::sim::world world_;  // last: its processes refer to the rest
};

inline constexpr std::uint32_t nobody = UINT32_MAX;

/// All hosts have finished, less than `most` away from those parameters and, where something is rounded on the way, more
/// than `least`.
template <class World>
void all_like(World& swarm, const swarm_reference& want, std::uint32_t except, double most = 1e-6, double least = -1) {
  for (std::uint32_t h = 0; h < swarm.hosts(); ++h) {
    if (h == except) continue;
    INFO("host " << h << ": " << swarm.at(h).error);
    REQUIRE(swarm.at(h).finished);
    CHECK(swarm.distance(h, want) < most);
    CHECK(swarm.distance(h, want) > least);
  }
}

/// Those of the unsplit model.
template <class World>
void all_like_unsplit(World& swarm, std::uint32_t except = nobody, double most = 1e-6, double least = -1) {
  all_like(swarm, swarm.unsplit(), except, most, least);
}

/// All have finished, and those of a stage alike, of three each.
template <class World>
void stages_agree(World& swarm, std::uint32_t except = nobody) {
  for (std::uint32_t h = 0; h < swarm.hosts(); ++h) {
    if (h == except) continue;
    INFO("host " << h << ": " << swarm.at(h).error);
    REQUIRE(swarm.at(h).finished);
    const std::uint32_t first = h / 3 * 3 == except ? except + 1 : h / 3 * 3;
    CHECK(swarm.at(h).parameters == swarm.at(first).parameters);
  }
}

/// The network calls that its victim makes in such a run when it is not killed.
template <class World>
distinct_calls calls_of_victim(swarm_world_options o) {
  o.dies_at = UINT64_MAX;
  World swarm{o};
  swarm.boot();
  swarm.run(2min);
  return swarm.at(o.victim).distinct;
}

/// Of those between one step and the next.
inline causeway::duration longest_pause(const std::vector<causeway::time_point>& ends) {
  causeway::duration longest{0};
  for (std::size_t i = 1; i < ends.size(); ++i) longest = std::max(longest, ends[i] - ends[i - 1]);
  return longest;
}

/// Three peers for each of three stages.
inline const swarm_world_options three_stages{
    .speeds = {{1, 1, 1}, {1, 1, 1}, {1, 1, 1}}, .steps = 3, .micro_batches = 8, .block_seconds = 0.01};

}  // namespace support

#endif  // CAUSEWAY_TESTS_PARALLEL_SWARM_SWARM_WORLD_HPP
