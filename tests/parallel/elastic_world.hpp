// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TESTS_PARALLEL_ELASTIC_WORLD_HPP
#define CAUSEWAY_TESTS_PARALLEL_ELASTIC_WORLD_HPP

// Elastic pipelines in a simulated world: the real trainer, membership, transfer and disk code with a small GPT, and hosts
// that die at chosen network calls, come late, or come back.

#include <causeway/comm/every_step.hpp>
#include <causeway/fault/quorum.hpp>
#include <causeway/io/memory_storage.hpp>
#include <causeway/nn/gpt.hpp>
#include <causeway/parallel/elastic_pipeline.hpp>
#include <causeway/sim/disk.hpp>
#include <causeway/sim/world.hpp>
#include <causeway/train/crew_group.hpp>
#include <causeway/train/member.hpp>
#include <causeway/train/trainer.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "support/counted_fabric.hpp"
#include "support/pipelines.hpp"

namespace support {

using namespace std::chrono_literals;

struct elastic_world_options {
  std::uint32_t hosts = 4;
  std::int64_t layers = 4;
  std::int64_t micro_batches = 4;
  std::uint64_t steps = 4;
  std::uint64_t seed = 1;
  float clip_norm = 1;
  std::uint64_t store_every = 0;  ///< steps between copies in a storage that all hosts reach; 0: none
  causeway::sim::link_options link{.latency = 5ms};
  std::uint32_t victim = UINT32_MAX;  ///< dies at its `dies_at`th network call
  std::uint64_t dies_at = 0;
  causeway::duration back_after{0};                                 ///< the victim is started again; 0: not
  std::vector<std::uint32_t> late{};                                ///< hosts that are not booted with the rest
  std::uint64_t evaluations = 0;                                    ///< before every step and at the end
  std::function<void(std::uint32_t, std::uint64_t)> before_step{};  ///< host, step
  std::function<void(const std::string&)> trace{};                  ///< every line that a peer logs
};

/// The peer of such a run, on any network. It begins with the first block only.
template <class Pipeline>
auto elastic_trainer(const elastic_world_options& o, std::shared_ptr<causeway::elastic_group> crew,
                     causeway::environment env, Pipeline pipeline) {
  using namespace causeway;
  env.group = std::move(crew);
  trainer_options to;
  to.learning_rate = optim::constant{0.01F};
  to.clip_norm = o.clip_norm;
  auto model = nn::gpt::create(small_gpt(o.layers), kernels::cpu_backend{1}, nn::model_part{{0, 1}});
  return make_trainer(std::move(*model), std::move(env), to, comm::every_step<>{}, optim::adamw{}, fault::quorum{},
                      std::move(pipeline));
}

/// Pipelines with that recovery, for elastic_world.
template <class Recovery>
auto with(Recovery recovery) {
  return [recovery](std::shared_ptr<causeway::crew_group> crew, causeway::parallel::elastic_pipeline_options o) {
    return causeway::parallel::elastic_pipeline<Recovery>{std::move(crew), std::move(o), recovery};
  };
}

/// `make(crew, options)` gives a peer's pipeline.
template <class Make>
class elastic_world {
 public:
  elastic_world(elastic_world_options options, Make make)
      : options_{std::move(options)}, make_{std::move(make)}, world_{world_options()} {
    for (std::uint32_t h = 0; h < options_.hosts; ++h) {
      const auto host = world_.add_host({});
      disks_.emplace_back(causeway::sim::disk_options{.seed = causeway::mix(options_.seed, host)});
      world_.set_storage(host, causeway::io::any_storage{causeway::io::basic_file_storage{disks_.back()}});
    }
    if (options_.trace) {
      world_.set_log([this](causeway::time_point t, std::uint32_t host, causeway::severity, std::string_view text) {
        options_.trace(std::to_string(causeway::seconds(t.since_start)) + " host " + std::to_string(host) + ": " +
                       std::string{text});
      });
    }
    results_.resize(options_.hosts);
  }

  struct result_of_host {
    bool finished = false;
    std::map<std::string, std::vector<float>> parameters;  ///< of the blocks that it computed in the last step
    std::map<std::uint64_t, double> losses;                ///< by step
    std::map<std::uint64_t, causeway::stage::layout> layouts;
    std::map<std::uint64_t, causeway::time_point> ends;
    std::map<std::uint64_t, double> evaluated;  ///< by step; what it did not hear is not there
    std::uint64_t missed = 0;                   ///< evaluations without an outcome
    std::string error;
    std::uint64_t id = 0;
    std::uint64_t received = 0;
    std::uint64_t made_up = 0;
    std::uint64_t went_back = 0;
    std::uint64_t resumed = 0;  ///< attempts that went on with a step
    std::uint64_t calls = 0;  ///< of the network
  };

  causeway::sim::world& world() { return world_; }
  result_of_host& at(std::uint32_t host) { return results_[host]; }
  [[nodiscard]] std::uint32_t finished() const {
    return static_cast<std::uint32_t>(std::count_if(results_.begin(), results_.end(), [](auto& r) { return r.finished; }));
  }
  void boot() {
    for (std::uint32_t h = 0; h < options_.hosts; ++h) {
      if (std::find(options_.late.begin(), options_.late.end(), h) == options_.late.end()) boot(h);
    }
  }
  void boot(std::uint32_t host) {
    world_.boot(host, [this](causeway::sim::process& p) { live(p); });
  }
  /// Until all live hosts of `wanted` have finished, or the time is over.
  void run(causeway::duration end = 1h) { world_.run_until(causeway::time_point{end}); }
  std::uint32_t wanted = UINT32_MAX;  ///< hosts that have to finish; the default is all

  /// A host's seat in the last step that it noted; nullptr: spare, or none.
  [[nodiscard]] const causeway::stage::seat* last_seat(std::uint32_t host) const {
    const auto& r = results_[host];
    return r.layouts.empty() ? nullptr : r.layouts.rbegin()->second.find(r.id);
  }

  /// The whole model, trained on the same batches.
  [[nodiscard]] trained_model unsplit() const {
    const pipeline_case c{.ranks = 1,
                          .micro_batches = options_.micro_batches,
                          .sequences = options_.micro_batches,
                          .steps = options_.steps,
                          .clip_norm = options_.clip_norm};
    return train_whole(small_gpt(options_.layers), c, [] { return causeway::comm::every_step<>{}; });
  }

  /// How far what the hosts computed is from that. Not a number where they do not make the whole model together.
  [[nodiscard]] double distance(const trained_model& whole) const {
    double worst = 0;
    for (const auto& [name, want] : whole.parameters) {
      bool seen = false;
      for (const auto& r : results_) {
        const auto found = r.parameters.find(name);
        if (!r.finished || found == r.parameters.end()) continue;
        seen = true;
        for (std::size_t i = 0; i < want.size(); ++i) {
          worst = std::max(worst, std::abs(double(found->second.at(i)) - double(want[i])));
        }
      }
      if (!seen) return NAN;
    }
    for (const auto& r : results_) {
      for (const auto& [step, loss] : r.losses) worst = std::max(worst, std::abs(loss - whole.losses.at(step - 1)));
    }
    return worst;
  }

 private:
  causeway::sim::world_options world_options() const {
    causeway::sim::world_options o;
    o.seed = options_.seed;
    o.link = options_.link;
    return o;
  }

  [[nodiscard]] std::shared_ptr<causeway::net::fabric> fabric(causeway::sim::process& p, std::uint64_t id) {
    return std::make_shared<counted_fabric>(p.make_fabric(id), [this, &p](fabric_call) {
      if (results_[p.host()].calls++ != options_.dies_at || p.host() != options_.victim) return;
      world_.kill(p.host());
      if (options_.back_after > 0s) world_.after(options_.back_after, [this, h = p.host()] { world_.restart(h); });
      if (world_.running() == &p) p.sleep(1h);
    });
  }

  causeway::parallel::elastic_pipeline_options pipeline_options() {
    causeway::parallel::elastic_pipeline_options o{.micro_batches = options_.micro_batches};
    if (options_.store_every > 0) o.storage = causeway::io::any_storage{shared_};
    o.store_every = options_.store_every;
    return o;
  }

  causeway::member_options member_options(std::uint32_t host, bool founds) {
    causeway::member_options o;
    o.protocol.run = 4711;
    o.protocol.expected = options_.hosts - static_cast<std::uint32_t>(options_.late.size());
    for (std::uint32_t h = 0; h < options_.hosts; ++h) {
      if (h != host && !founds) o.dial.push_back(world_.address(h));
    }
    o.enters_afresh = true;
    o.secret = causeway::mix(options_.seed, host);
    return o;
  }

  void live(causeway::sim::process& p) {
    using namespace causeway;
    const std::uint32_t host = p.host();
    result_of_host& me = results_[host];
    me.finished = false;
    auto disk = p.storage();
    const bool founds = host == 0 && !disk.read("member/record");
    const auto fresh = mix(options_.seed, host + 1, p.incarnation()) | 1U;
    const auto id = member_identity(p.storage(), "member", 4711, fresh);
    me.id = id;
    auto group = member::make(fabric(p, id), p.storage(), member_options(host, founds), p.log());
    if (!group) {
      me.error = group.error().text();
      return;
    }
    const auto crew = std::make_shared<crew_group>(*group);
    environment env;
    env.clock = p.clock();
    env.log = p.log();
    auto trainer = elastic_trainer(options_, crew, std::move(env), make_(crew, pipeline_options()));
    const auto outcome = train(p, trainer, me);
    if (!outcome) me.error = outcome.error().text();
    if (!outcome) return;
    me.finished = true;
    if (finished() >= std::min(wanted, options_.hosts)) world_.end_run();
    p.sleep(10h);  // stays to help those who are behind
  }

  template <class Trainer>
  causeway::result<void> train(causeway::sim::process& p, Trainer& trainer, result_of_host& me) {
    CAUSEWAY_TRY(trainer.start());
    while (trainer.context().step() < options_.steps) {
      const std::uint64_t step = trainer.context().step();
      if (options_.before_step) options_.before_step(p.host(), step);
      CAUSEWAY_TRY(evaluate(trainer, me));
      if (trainer.context().step() != step) continue;
      const token_batch b{0, step, options_.micro_batches};
      CAUSEWAY_ASSIGN(const auto report, trainer.step(b.view()));
      if (report.step != step + 1) {  // others had taken it, or the run went back
        me.went_back += report.step <= step ? 1 : 0;
        continue;
      }
      me.losses[report.step] = report.loss;
      me.layouts[report.step] = trainer.parallel().layout();
      me.ends[report.step] = p.now();
    }
    CAUSEWAY_TRY(evaluate(trainer, me));
    me.received = trainer.parallel().received_blocks();
    me.made_up = trainer.parallel().made_up_blocks();
    me.resumed = trainer.parallel().resumed_attempts();
    if (trainer.parallel().layout().find(me.id) != nullptr) detail::collect(trainer.model().parameters(), me.parameters);
    return {};
  }

  template <class Trainer>
  causeway::result<void> evaluate(Trainer& trainer, result_of_host& me) {
    const token_batch held_out{0, 1000, options_.micro_batches};
    for (std::uint64_t i = 0; i < options_.evaluations; ++i) {
      const auto loss = trainer.evaluate(held_out.view());
      if (loss) me.evaluated[trainer.context().step()] = *loss;
      if (!loss && loss.error().code != causeway::errc::cancelled) return loss.error();
      me.missed += loss ? 0 : 1;
    }
    return {};
  }

  elastic_world_options options_;
  Make make_;
  std::vector<result_of_host> results_;
  std::deque<causeway::sim::disk> disks_;
  causeway::io::memory_storage shared_;
  causeway::sim::world world_;  // last: its processes refer to the rest
};

/// Of all hosts, in one text.
template <class Make>
std::string errors_of(elastic_world<Make>& w, std::uint32_t hosts) {
  std::string all;
  for (std::uint32_t h = 0; h < hosts; ++h) all += w.at(h).error;
  return all;
}

/// Kills the victim at `kills` network calls spread over the run, from the `from`th on.
template <class Recovery>
void kill_through_the_run(elastic_world_options o, const Recovery& recovery, std::uint64_t from, std::uint64_t kills) {
  o.dies_at = UINT64_MAX;
  elastic_world quiet{o, with(recovery)};
  quiet.boot();
  quiet.run();
  const auto whole = quiet.unsplit();
  REQUIRE(quiet.finished() == o.hosts);
  CHECK(quiet.distance(whole) < 5e-5);
  const std::uint64_t calls = quiet.at(o.victim).calls;
  for (std::uint64_t k = 0; k < kills; ++k) {
    o.dies_at = from + k * (calls - from) / kills;
    CAPTURE(o.victim, o.dies_at);
    elastic_world w{o, with(recovery)};
    w.wanted = o.hosts - 1;
    w.boot();
    w.run();
    CHECK(errors_of(w, o.hosts).empty());
    CHECK(w.finished() >= o.hosts - 1);
    CHECK(w.distance(whole) < 5e-5);
  }
}

/// Calls of the network after which the first peer has founded the run.
inline constexpr std::uint64_t founded = 100;

}  // namespace support

#endif  // CAUSEWAY_TESTS_PARALLEL_ELASTIC_WORLD_HPP
