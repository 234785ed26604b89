// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TESTS_PARALLEL_ELASTIC_LOCAL_PIPELINE_WORLD_HPP
#define CAUSEWAY_TESTS_PARALLEL_ELASTIC_LOCAL_PIPELINE_WORLD_HPP

// Pipelines whose replicas take steps of their own, in the world of elastic pipelines.

#include <causeway/parallel/local_pipeline.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "parallel/elastic/drawn_models.hpp"
#include "parallel/elastic/elastic_world.hpp"
#include "parallel/elastic/whole_models.hpp"
#include "support/catch.hpp"
#include "support/conformance.hpp"
#include "support/named_paths.hpp"

namespace support {

/// Rounds of three steps.
inline constexpr std::uint32_t steps_of_round = 3;

/// DiLoCo of two whole models by hand, with these micro-batches of each batch, in rounds of `steps_of_round`.
inline parameters diloco_of_two_models(const elastic_world_options& o, std::int64_t first, std::int64_t second) {
  using namespace causeway;
  std::vector<float> velocity;
  const float weight = static_cast<float>(first) / static_cast<float>(first + second);
  return models_by_hand<2>(
      o,
      [&](std::uint64_t steps, parameter_store& shared, const auto& models) {
        if (steps % steps_of_round != 0) return;
        const auto values = shared.values();
        velocity.resize(values.size(), 0.0F);
        for (std::size_t i = 0; i < values.size(); ++i) {
          const float moved = values[i] - (weight * models[0][i] + (1 - weight) * models[1][i]);
          velocity[i] = 0.9F * velocity[i] + moved;
          models[0][i] = models[1][i] = values[i] -= 0.7F * (moved + 0.9F * velocity[i]);
        }
      },
      [=](std::size_t model, std::uint64_t) {
        return model == 0 ? index_range{0, first} : index_range{first, first + second};
      });
}

/// Every peer is saved after this step of its own, and loaded when it is started again.
struct local_checkpoints {
  struct of_peer {
    causeway::nn::model_part part;
    saved_state state;
  };
  std::uint64_t after = 0;
  std::map<std::uint64_t, of_peer> by_peer{};
};

/// What becomes of lost stages: regroup in two, unless `Of` says otherwise.
template <class Of>
auto recovery_of() {
  if constexpr (requires { Of::recovery(); }) {
    return Of::recovery();
  } else {
    return causeway::stage::recovery::regroup{2};
  }
}

/// The pipelines that a policy is tried with: of two stages each, as its options say, or what these make themselves.
template <class Options>
auto pipelines_with(causeway::parallel::local_pipeline_options po) {
  using namespace causeway;
  if constexpr (requires { Options::pipelines(po); }) {
    return Options::pipelines(std::move(po));
  } else if constexpr (requires { typename Options::pipeline; }) {
    return typename Options::pipeline{std::move(po), stage::recovery::regroup{2}};
  } else {
    auto recovery = recovery_of<Options>();
    return parallel::local_pipeline<decltype(recovery)>{std::move(po), std::move(recovery)};
  }
}

/// The peer of such a run. It begins with the first block only, or with what was `saved`.
template <class Comm, class Pipeline>
auto local_trainer(const elastic_world_options& o, std::shared_ptr<causeway::pipeline_group> group,
                   causeway::environment env, Comm comm, Pipeline pipeline,
                   const local_checkpoints::of_peer* saved = nullptr) {
  using namespace causeway;
  env.group = std::move(group);
  trainer_options to;
  to.learning_rate = optim::constant{0.01F};
  to.clip_norm = o.clip_norm;
  const nn::model_part part = saved != nullptr ? saved->part : nn::model_part{{0, 1}};
  auto gpt = small_gpt(o.layers);
  gpt.joined_ends = o.joined_ends;
  gpt.tie = o.tie;
  auto model = nn::gpt::create(gpt, kernels::cpu_backend{1}, part);
  auto trainer = make_trainer(std::move(*model), std::move(env), to, std::move(comm), optim::adamw{}, fault::quorum{},
                              std::move(pipeline));
  if (saved != nullptr) load(trainer, saved->state);
  return trainer;
}

template <class Trainer>
class local_peer_of final : public elastic_peer {
 public:
  explicit local_peer_of(Trainer trainer, std::function<void(Trainer&)> stepped = {})
      : trainer_{std::move(trainer)}, stepped_{std::move(stepped)} {}
  causeway::result<void> start() override { return trainer_.start(); }
  std::uint64_t steps() override { return trainer_.context().step(); }
  causeway::result<causeway::step_report> step(const causeway::batch& b) override {
    auto report = trainer_.step(b);
    if (stepped_ && report) stepped_(trainer_);
    return report;
  }
  causeway::result<double> evaluate(const causeway::batch& b) override { return trainer_.evaluate(b); }
  const causeway::stage::layout& layout() override { return trainer_.parallel().layout(); }
  causeway::parameter_store& parameters() override { return trainer_.model().parameters(); }
  void collect(std::map<std::string, std::vector<float>>& out) override { collect_paths(trainer_, out); }
  void count(elastic_result& out) override {
    out.received = trainer_.parallel().received_blocks();
    out.resumed = trainer_.parallel().given_up_steps();
    out.made_up = trainer_.parallel().interpolated_blocks();
  }

 private:
  Trainer trainer_;
  std::function<void(Trainer&)> stepped_;
};

/// A preset of its options' own values, but for the length of a round, unless these say that it is their own; or what they
/// make themselves.
template <class Options>
auto policy_of() {
  Options with;
  if constexpr (
      requires { with.local_steps; } && !requires { Options::has_own_rounds; })
    with.local_steps = steps_of_round;
  if constexpr (requires { with.policy(); }) {
    return with.policy();
  } else {
    return make(with);  // of the options' own namespace
  }
}

/// With a model whose ends share the token table, where a policy is tried with one.
template <class Of>
elastic_world_options with_model_of(elastic_world_options o) {
  if constexpr (requires { Of::tie; }) o.tie = Of::tie;
  return o;
}

/// With the policy of such options.
template <class Options>
class local_world : public any_elastic_world {
 public:
  explicit local_world(elastic_world_options options, local_checkpoints* checkpoints = nullptr)
      : any_elastic_world{
            with_model_of<Options>(std::move(options)),
            [checkpoints](const elastic_world_options& o, const std::shared_ptr<causeway::pipeline_group>& group,
                          causeway::environment env, const causeway::parallel::elastic_pipeline_options& e) {
              return make(o, group, std::move(env), {e.micro_batches, e.storage, e.folder, e.store_every, o.steps},
                          checkpoints);
            }} {
    if constexpr (requires { Options::met(this->world()); }) Options::met(this->world());
  }

 private:
  static std::unique_ptr<elastic_peer> make(const elastic_world_options& o,
                                            const std::shared_ptr<causeway::pipeline_group>& group,
                                            causeway::environment env, causeway::parallel::local_pipeline_options po,
                                            local_checkpoints* checkpoints) {
    const std::uint64_t id = group->identity();
    const bool saved = checkpoints != nullptr && checkpoints->by_peer.contains(id);
    auto trainer = local_trainer(o, group, std::move(env), policy_of<Options>(), pipelines_with<Options>(std::move(po)),
                                 saved ? &checkpoints->by_peer.at(id) : nullptr);
    const auto note = [checkpoints, id](auto& t) {
      if constexpr (requires { Options::stepped(t); }) Options::stepped(t);
      if (checkpoints == nullptr || t.context().step() != checkpoints->after) return;
      checkpoints->by_peer[id] = {t.model().part(), save(t)};
    };
    return std::make_unique<local_peer_of<decltype(trainer)>>(std::move(trainer), note);
  }
};

/// Runs `w` until all four of its peers are saved, kills them at once, and starts them again.
inline void stop_all_once_saved(any_elastic_world& w, const local_checkpoints& saved, std::uint32_t hosts = 4) {
  w.boot();
  while (saved.by_peer.size() < hosts)
    w.world().run_until(causeway::time_point{w.world().now().since_start + std::chrono::milliseconds{1}});
  for (std::uint32_t h = 0; h < hosts; ++h) w.world().kill(h);
  for (std::uint32_t h = 0; h < hosts; ++h) w.world().restart(h);
  w.run();
}

/// The parameters of a run that is over, which those who hold them have alike.
inline parameters holders_agree(any_elastic_world& w, std::uint32_t hosts) {
  parameters all;
  for (std::uint32_t h = 0; h < hosts; ++h) {
    if (!w.at(h).finished) continue;
    for (const auto& [name, values] : w.at(h).parameters) {
      const auto [there, fresh] = all.emplace(name, values);
      INFO("host " << h << ", " << name);
      CHECK((fresh || there->second == values));
      CHECK(std::isfinite(values.front()));
    }
  }
  return all;
}

/// Of two stages each; three rounds.
inline elastic_world_options two_pipelines() {
  elastic_world_options o;
  o.hosts = 4;
  o.layers = 4;
  o.micro_batches = 4;
  o.steps = 9;
  return o;
}

inline parameters undisturbed_in(any_elastic_world& w, std::uint32_t hosts) {
  w.boot();
  w.run();
  CHECK(errors_of(w, hosts).empty());
  REQUIRE(w.finished() == hosts);
  return holders_agree(w, hosts);
}
template <class Options>
parameters undisturbed(elastic_world_options o) {
  o.dies_at = UINT64_MAX;
  local_world<Options> w{o};
  return undisturbed_in(w, o.hosts);
}

/// The victim is killed at every `every`th call of its network, once in a moment, and comes back or does not in turn. Where
/// it is missed, its replica rests for the rest of the round, half of whose samples are then left out: `most` says how far
/// the loss may be from that of a run without faults. `first_round`: calls after which the first peer is through with it.
template <class Options>
void goes_on_whoever_is_killed(std::uint64_t every, double most, elastic_world_options o = two_pipelines(),
                               std::uint64_t first_round = 2 * founded) {
  o.dies_at = UINT64_MAX;
  local_world<Options> calm{o};
  const double loss = held_out_loss(undisturbed_in(calm, o.hosts), o.layers);
  for (const std::uint32_t victim : {0U, 1U, 2U, 3U}) {
    bool comes_back = victim % 2 != 0;
    // Who founds the run is its only member until the first round is over.
    for (std::uint64_t n = (victim == 0 ? first_round : founded) + victim;; n = calm.at(victim).distinct.after(n, every)) {
      INFO("host " << victim << " is killed at call " << n);
      o.victim = victim;
      o.dies_at = n;
      o.back_after = std::exchange(comes_back, !comes_back) ? std::chrono::milliseconds{200} : causeway::duration{0};
      local_world<Options> w{o};
      w.wanted = o.hosts - 1;
      w.boot();
      w.run();
      CHECK(errors_of(w, o.hosts).empty());
      CHECK(w.finished() >= o.hosts - 1);
      const parameters all = holders_agree(w, o.hosts);
      CHECK(std::abs(held_out_loss(all, o.layers) / loss - 1) < most);
      if (w.at(victim).calls <= n) break;  // it has outlived the run
    }
  }
}

/// All peers are stopped after a step, and go on from checkpoints with the same bits.
template <class Options>
void goes_on_from_checkpoints() {
  const auto o = two_pipelines();
  const parameters quiet = undisturbed<Options>(o);
  for (const std::uint64_t step : {3U, 5U}) {
    INFO("all are stopped after step " << step);
    local_checkpoints saved{.after = step};
    local_world<Options> w{o, &saved};
    stop_all_once_saved(w, saved);
    CHECK(errors_of(w, o.hosts).empty());
    REQUIRE(w.finished() == o.hosts);
    CHECK(holders_agree(w, o.hosts) == quiet);
  }
}

/// One of five is killed at some calls before the `until`th, every `every`th, and the spare one takes its place.
/// `judge(all, quiet)` looks at the parameters, and those of a run without faults.
template <class Options, class Judge>
void spare_peers_take_over(elastic_world_options o, std::uint64_t until, std::uint64_t every, Judge&& judge) {
  o.hosts = 5;
  const parameters quiet = undisturbed<Options>(o);
  std::uint64_t given_up = 0;
  for (std::uint32_t victim = 0; victim < 5; ++victim) {
    for (std::uint64_t n = 200; n < until; n += every) {
      INFO("host " << victim << " is killed at call " << n);
      o.victim = victim;
      o.dies_at = n;
      local_world<Options> w{o};
      w.wanted = 4;
      w.boot();
      w.run();
      CHECK(errors_of(w, o.hosts).empty());
      CHECK(w.finished() >= 4);
      judge(holders_agree(w, o.hosts), quiet);
      for (std::uint32_t h = 0; h < 5; ++h) given_up += w.at(h).resumed;
      for (const auto& [step, layout] : w.at(victim == 0 ? 1 : 0).layouts) {
        INFO("step " << step);
        CHECK(layout.replicas.size() == 2);
      }
    }
  }
  CHECK(given_up > 0);
}

/// One of three is killed at every `every`th call: a stage that nobody has any more is had again from what is saved. A
/// round that begins anew is the very same one, where all parameters are exchanged together. Where the spare one was lost
/// they may be `most` off. `first`: a call after which the first round is over.
template <class Options>
void lost_stages_come_back(std::uint64_t every, double most = 0, std::uint64_t first = founded) {
  auto o = two_pipelines();
  o.hosts = 3;
  o.steps = 15;
  o.store_every = 1;
  const parameters quiet = undisturbed<Options>(o);
  std::uint64_t went_back = 0;
  for (std::uint32_t victim = 0; victim < 3; ++victim) {
    for (std::uint64_t n = first + (victim == 0 ? 70 : 0);; n += every) {
      INFO("host " << victim << " is killed at call " << n);
      o.victim = victim;
      o.dies_at = n;
      local_world<Options> w{o};
      w.wanted = 2;
      w.boot();
      w.run();
      if (w.at(victim).losses.contains(o.steps - 1) || w.at(victim).calls < n) break;  // others ended the run without it
      CHECK(errors_of(w, o.hosts).empty());
      std::uint64_t back = 0;
      for (std::uint32_t h = 0; h < 3; ++h) back += w.at(h).went_back;
      CHECK(w.finished() >= 2);
      CHECK(off(holders_agree(w, o.hosts), quiet, o.layers) <= (back > 0 ? 0 : most));
      went_back += back;
    }
  }
  CHECK(went_back > 0);
}

/// The victim dies when it is about to make its step `at`. `all`: the world, as soon as there is one.
inline void dies_before_step(elastic_world_options& o, any_elastic_world*& all, std::uint64_t at) {
  o.dies_at = UINT64_MAX;
  o.before_step = [&all, victim = o.victim, at](std::uint32_t host, std::uint64_t step) {
    if (host != victim || step != at) return;
    all->world().after(std::chrono::milliseconds{1}, [&all, victim] { all->world().kill(victim); });
  };
}

/// Rings of four stages and the ends, with swapped_neighbours. Of two rings and a spare peer none makes anything up; of
/// one, the stage that nobody has any more, unless it is the ends, without which the run stands.
template <class World>
void rings_go_on() {
  elastic_world_options o;
  o.layers = 4;
  o.joined_ends = true;
  o.steps = 9;
  o.hosts = GENERATE(6U, 11U);
  o.victim = GENERATE(2U, 4U);
  CAPTURE(o.hosts, o.victim);
  any_elastic_world* all = nullptr;
  dies_before_step(o, all, 4);
  World w{o};
  all = &w;
  w.wanted = o.hosts - 1;
  w.boot();
  w.run(std::chrono::minutes{2});
  CHECK(errors_of(w, o.hosts).empty());
  const auto* assignment = w.last_assignment(o.victim);
  REQUIRE(assignment != nullptr);
  std::uint64_t made_up = 0;
  for (std::uint32_t h = 0; h < o.hosts; ++h) made_up += w.at(h).made_up;
  const bool alone = o.hosts == 6, ends = assignment->computes.first == 0;
  CHECK(w.finished() == (alone && ends ? 0 : o.hosts - 1));
  CHECK(made_up == (alone && !ends ? 1 : 0));
  holders_agree(w, o.hosts);
}

}  // namespace support

#endif  // CAUSEWAY_TESTS_PARALLEL_ELASTIC_LOCAL_PIPELINE_WORLD_HPP
