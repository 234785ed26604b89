// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TESTS_PARALLEL_ELASTIC_ELASTIC_WORLD_HPP
#define CAUSEWAY_TESTS_PARALLEL_ELASTIC_ELASTIC_WORLD_HPP

// Elastic pipelines in a simulated world: the real trainer, membership, transfer and disk code with a small GPT, and hosts
// that die at chosen network calls, come late, or come back. All but the trainer is compiled once, in
// support/elastic_world.cpp, for folders that name `elastic_world` in tests/CMakeLists.txt.

#include <causeway/comm/every_step.hpp>
#include <causeway/fault/quorum.hpp>
#include <causeway/io/memory_storage.hpp>
#include <causeway/parallel/elastic_pipeline.hpp>
#include <causeway/sim/disk.hpp>
#include <causeway/sim/world.hpp>
#include <causeway/train/pipeline_group.hpp>
#include <causeway/train/trainer.hpp>

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "support/distinct_calls.hpp"
#include "support/models.hpp"
#include "support/pipelines.hpp"

namespace support {

using namespace std::chrono_literals;

struct elastic_world_options {
  std::uint32_t hosts = 4;
  std::int64_t layers = 4;
  bool joined_ends = false;  ///< of the model: a block more
  bool tie = false;          ///< its ends share the token table
  std::int64_t micro_batches = 4;
  std::uint64_t steps = 4;
  std::uint64_t seed = 1;
  float clip_norm = 1;
  std::uint64_t store_every = 0;  ///< steps between copies of blocks; 0: none
  bool own_storages = false;      ///< each host's copies are on its own disk; else all hosts reach one storage
  causeway::sim::link_options link{.latency = 5ms};
  std::uint32_t victim = UINT32_MAX;  ///< dies at its `dies_at`th network call
  std::uint64_t dies_at = 0;
  causeway::duration back_after{0};                     ///< the victim is started again; 0: not
  std::vector<std::uint32_t> late{};                    ///< hosts that are not booted with the rest
  std::map<std::uint32_t, std::uint64_t> told_to_go{};  ///< host: before which step; it hands over and leaves
  std::uint64_t evaluations = 0;                        ///< before every step and at the end
  bool plain_member = false;     ///< the trainer is given the membership itself, and makes the group of pipelines
  bool through_is_told = false;  ///< who is at the end meets nobody any more
  std::function<void(std::uint32_t, std::uint64_t)> before_step{};  ///< host, step
  /// Before a step: the host, the step, its parameters.
  std::function<void(std::uint32_t, std::uint64_t, causeway::parameter_store&)> spoils{};
  std::function<causeway::batch(std::uint64_t)> batch_of{};  ///< a step; it stays. None: tokens at random
  std::function<void(const std::string&)> trace{};           ///< every line that a peer logs
};

/// The peer of such a run, on any network. Without `group` the trainer makes its own, over the environment's.
template <class Pipeline, class Comm = causeway::comm::every_step<>, class Inner = causeway::optim::adamw>
auto elastic_trainer(const elastic_world_options& o, std::shared_ptr<causeway::run_group> group, causeway::environment env,
                     Pipeline pipeline, Comm comm = Comm{},
                     const causeway::nn::model_part& part = causeway::nn::model_part{{0, 1}}, Inner inner = Inner{}) {
  using namespace causeway;
  if (group) env.group = std::move(group);
  trainer_options to;
  to.learning_rate = optim::constant{0.01F};
  to.clip_norm = o.clip_norm;
  auto gpt = small_gpt(o.layers);
  gpt.joined_ends = o.joined_ends;
  auto model = nn::gpt::create(gpt, kernels::cpu_backend{1}, part);
  return make_trainer(std::move(*model), std::move(env), to, std::move(comm), std::move(inner), fault::quorum{},
                      std::move(pipeline));
}

/// Pipelines with that recovery, for elastic_world.
template <class Recovery>
auto with(Recovery recovery) {
  return [recovery](causeway::parallel::elastic_pipeline_options o) {
    return causeway::parallel::elastic_pipeline<Recovery>{std::move(o), recovery};
  };
}

/// What is known of a host when the run is over.
struct elastic_result {
  bool finished = false;
  bool left = false;                                     ///< when it was told to
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
  std::uint64_t calls = 0;    ///< of the network
  distinct_calls distinct;
};

/// The peer of such a run, whatever the type of its trainer.
class elastic_peer {
 public:
  virtual ~elastic_peer() = default;
  virtual causeway::result<void> start() = 0;
  [[nodiscard]] virtual std::uint64_t steps() = 0;
  virtual causeway::result<causeway::step_report> step(const causeway::batch& b) = 0;
  virtual causeway::result<double> evaluate(const causeway::batch& b) = 0;
  [[nodiscard]] virtual const causeway::stage::layout& layout() = 0;
  virtual causeway::parameter_store& parameters() = 0;
  /// By name, when the run is over.
  virtual void collect(std::map<std::string, std::vector<float>>& out) { detail::collect(parameters(), out); }
  virtual void leave_next() {}
  virtual void count(elastic_result& out) = 0;
};

template <class Trainer>
class elastic_peer_of : public elastic_peer {
 public:
  explicit elastic_peer_of(Trainer trainer) : trainer_{std::move(trainer)} {}
  causeway::result<void> start() override { return trainer_.start(); }
  std::uint64_t steps() override { return trainer_.context().step(); }
  causeway::result<causeway::step_report> step(const causeway::batch& b) override { return trainer_.step(b); }
  causeway::result<double> evaluate(const causeway::batch& b) override { return trainer_.evaluate(b); }
  const causeway::stage::layout& layout() override { return trainer_.parallel().layout(); }
  causeway::parameter_store& parameters() override { return trainer_.model().parameters(); }
  void leave_next() override { trainer_.parallel().leave_next(); }
  void count(elastic_result& out) override {
    out.received = trainer_.parallel().received_blocks();
    out.made_up = trainer_.parallel().interpolated_blocks();
    out.resumed = trainer_.parallel().resumed_attempts();
  }
  Trainer& trainer() { return trainer_; }

 private:
  Trainer trainer_;
};

/// The world, whatever the type of its peers' trainers.
class any_elastic_world {
 public:
  using peer_maker =
      std::function<std::unique_ptr<elastic_peer>(const elastic_world_options&, std::shared_ptr<causeway::pipeline_group>,
                                                  causeway::environment, causeway::parallel::elastic_pipeline_options)>;
  using result_of_host = elastic_result;

  any_elastic_world(elastic_world_options options, peer_maker make);
  ~any_elastic_world();

  causeway::sim::world& world() { return world_; }
  elastic_result& at(std::uint32_t host) { return results_[host]; }
  [[nodiscard]] std::uint32_t finished() const;
  void boot();
  void boot(std::uint32_t host);
  /// Until all live hosts of `wanted` have finished, or the time is over.
  void run(causeway::duration end = 1h);
  std::uint32_t wanted = UINT32_MAX;  ///< hosts that have to finish; the default is all

  /// A host's assignment in the last step that it noted; nullptr: spare, or none.
  [[nodiscard]] const causeway::stage::assignment* last_assignment(std::uint32_t host) const;
  /// The whole model, trained on the same batches.
  [[nodiscard]] trained_model unsplit() const;
  /// How far what the hosts computed is from that. Not a number where they do not make the whole model together.
  [[nodiscard]] double distance(const trained_model& whole) const;

 private:
  [[nodiscard]] causeway::sim::world_options world_options() const;
  [[nodiscard]] std::shared_ptr<causeway::net::fabric> fabric(causeway::sim::process& p, std::uint64_t id);
  [[nodiscard]] causeway::parallel::elastic_pipeline_options pipeline_options(causeway::sim::process& p);
  void live(causeway::sim::process& p);
  causeway::result<void> train(causeway::sim::process& p, elastic_peer& peer, elastic_result& me);
  causeway::result<void> evaluate(elastic_peer& peer, elastic_result& me);

  elastic_world_options options_;
  peer_maker make_;
  std::vector<elastic_result> results_;
  std::deque<causeway::sim::disk> disks_;
  causeway::io::memory_storage shared_;
  causeway::sim::world world_;  // last: its processes refer to the rest
};

/// `make(options)` gives a peer's pipeline.
template <class Make>
class elastic_world : public any_elastic_world {
 public:
  elastic_world(elastic_world_options options, Make make)
      : any_elastic_world{std::move(options),
                          [make](const elastic_world_options& o, const std::shared_ptr<causeway::pipeline_group>& group,
                                 causeway::environment env, causeway::parallel::elastic_pipeline_options pipeline) {
                            auto trainer = elastic_trainer(o, group, std::move(env), make(std::move(pipeline)));
                            return std::make_unique<elastic_peer_of<decltype(trainer)>>(std::move(trainer));
                          }} {}
};

/// Of all hosts, in one text.
std::string errors_of(any_elastic_world& w, std::uint32_t hosts);

/// Kills the victim at `kills` network calls spread over the run, from the `from`th on: the run comes to `whole` whenever
/// that is. `make(options)` gives a world.
template <class Make>
void worlds_come_to(const trained_model& whole, elastic_world_options o, const Make& make, std::uint64_t from,
                    std::uint64_t kills) {
  o.dies_at = UINT64_MAX;
  auto quiet = make(o);
  quiet.boot();
  quiet.run();
  REQUIRE(quiet.finished() == o.hosts);
  CHECK(quiet.distance(whole) < 5e-5);
  const std::uint64_t calls = quiet.at(o.victim).calls;
  for (std::uint64_t k = 0; k < kills; ++k) {
    o.dies_at = from + k * (calls - from) / kills;
    CAPTURE(o.victim, o.dies_at);
    auto w = make(o);
    w.wanted = o.hosts - 1;
    w.boot();
    w.run();
    CHECK(errors_of(w, o.hosts).empty());
    CHECK(w.finished() >= o.hosts - 1);
    CHECK(w.distance(whole) < 5e-5);
  }
}
/// The same of pipelines with that recovery, and the unsplit model.
template <class Recovery>
void kill_through_the_run(const elastic_world_options& o, const Recovery& recovery, std::uint64_t from,
                          std::uint64_t kills) {
  const auto make = [&](const elastic_world_options& with_this) { return elastic_world{with_this, with(recovery)}; };
  worlds_come_to(make(o).unsplit(), o, make, from, kills);
}

/// Calls of the network after which the first peer has founded the run.
inline constexpr std::uint64_t founded = 130;

}  // namespace support

#endif  // CAUSEWAY_TESTS_PARALLEL_ELASTIC_ELASTIC_WORLD_HPP
