// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TESTS_PARALLEL_ELASTIC_ELASTIC_TIED_WORLD_HPP
#define CAUSEWAY_TESTS_PARALLEL_ELASTIC_ELASTIC_TIED_WORLD_HPP

// Whole runs of a model whose output layer is the token table, which note what each peer holds of it.

#include <causeway/parallel/elastic_pipeline.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "parallel/elastic/elastic_cases.hpp"
#include "parallel/elastic/elastic_world.hpp"
#include "support/catch.hpp"

namespace tied_tables {

using namespace causeway;
using support::elastic_world_options;
using support::errors_of;
using support::founded;

inline nn::gpt_options tied_gpt(std::int64_t layers) {
  auto o = support::small_gpt(layers);
  o.tie = true;
  return o;
}

// The table and its moments as the peers of each state have them.
class table_notes {
 public:
  void note(std::uint64_t state, const std::vector<float>& table, bool first, bool last) {
    if (table.empty()) return;
    auto& of = states_[state];
    of.bits.insert(table);
    of.first = of.first || (first && !last);
    of.last = of.last || (last && !first);
  }
  // States with a peer that holds the table as embedding only, and one that holds it as output layer only.
  [[nodiscard]] std::size_t shared() const {
    std::size_t n = 0;
    for (const auto& [state, of] : states_) n += of.first && of.last ? 1 : 0;
    return n;
  }
  [[nodiscard]] bool equal() const {
    for (const auto& [state, of] : states_) {
      if (of.bits.size() != 1) return false;
    }
    return true;
  }

 private:
  struct one_state {
    std::set<std::vector<float>> bits;
    bool first = false, last = false;
  };
  std::map<std::uint64_t, one_state> states_;
};

template <class Trainer>
class noting_peer final : public support::elastic_peer {
 public:
  noting_peer(Trainer trainer, std::shared_ptr<pipeline_group> group, std::shared_ptr<table_notes> notes)
      : trainer_{std::move(trainer)}, group_{std::move(group)}, notes_{std::move(notes)} {}
  result<void> start() override { return trainer_.start(); }
  std::uint64_t steps() override { return trainer_.context().step(); }
  result<step_report> step(const batch& b) override {
    const std::uint64_t step = steps();
    const auto now = trainer_.context().parameters();
    const std::vector<float> before{now.begin(), now.end()};
    CAUSEWAY_ASSIGN(step_report report, trainer_.step(b));
    const auto then = trainer_.context().parameters();
    takes_part_ = report.step == step + 1 && !std::equal(before.begin(), before.end(), then.begin(), then.end());
    if (takes_part_) note();
    if (!takes_part_ && report.step == step + 1) report.step = UINT64_MAX;  // others have; what is here is older
    return report;
  }
  result<double> evaluate(const batch& b) override { return trainer_.evaluate(b); }
  const stage::layout& layout() override { return takes_part_ ? trainer_.parallel().layout() : nowhere_; }
  parameter_store& parameters() override { return trainer_.model().parameters(); }
  void count(support::elastic_result& out) override {
    out.received = trainer_.parallel().received_blocks();
    out.made_up = trainer_.parallel().interpolated_blocks();
    out.resumed = trainer_.parallel().resumed_attempts();
  }

 private:
  void note() {
    const stage::assignment* assignment = layout().find(group_->identity());
    if (assignment == nullptr) return;
    auto& model = trainer_.model();
    std::vector<float> all;
    const auto add = [&](std::span<float> flat) {
      const auto table = parallel::table_in(model, flat);
      all.insert(all.end(), table.begin(), table.end());
    };
    add(trainer_.context().parameters());
    for (const std::span<float> moment : trainer_.context().inner().moments()) add(moment);
    notes_->note(group_->record().state, all, assignment->holds(0), assignment->holds(model.blocks() - 1));
  }

  Trainer trainer_;
  std::shared_ptr<pipeline_group> group_;
  std::shared_ptr<table_notes> notes_;
  stage::layout nowhere_;
  bool takes_part_ = false;  // in the last step that it made or heard of
};

/// What makes a policy, since policies cannot be copied.
inline comm::every_step<> add_up() { return comm::every_step<>{}; }

class tied_world : public support::any_elastic_world {
 public:
  template <class Recovery, class Comm = comm::every_step<> (*)()>
  tied_world(const elastic_world_options& o, const Recovery& recovery, const Comm& comm = add_up)
      : tied_world{o, recovery, comm, std::make_shared<table_notes>()} {}

  [[nodiscard]] const table_notes& tables() const { return *notes_; }

 private:
  template <class Recovery, class Comm>
  tied_world(const elastic_world_options& options, const Recovery& recovery, const Comm& comm,
             const std::shared_ptr<table_notes>& notes)
      : any_elastic_world{options,
                          [recovery, comm, notes](const elastic_world_options& o,
                                                  const std::shared_ptr<pipeline_group>& group, environment env,
                                                  parallel::elastic_pipeline_options p) {
                            return peer(o, group, std::move(env), std::move(p), recovery, comm, notes);
                          }},
        notes_{notes} {}

  template <class Recovery, class Comm>
  static std::unique_ptr<support::elastic_peer> peer(const elastic_world_options& o,
                                                     const std::shared_ptr<pipeline_group>& group, environment env,
                                                     parallel::elastic_pipeline_options p, const Recovery& recovery,
                                                     const Comm& comm, const std::shared_ptr<table_notes>& notes) {
    env.group = group;
    trainer_options to;
    to.learning_rate = optim::constant{0.01F};
    to.clip_norm = o.clip_norm;
    auto model = nn::gpt::create(tied_gpt(o.layers), kernels::cpu_backend{1}, nn::model_part{{0, 1}});
    auto trainer = make_trainer(std::move(*model), std::move(env), to, comm(), optim::adamw{}, fault::quorum{},
                                parallel::elastic_pipeline<Recovery>{std::move(p), recovery});
    return std::make_unique<noting_peer<decltype(trainer)>>(std::move(trainer), group, notes);
  }

  std::shared_ptr<table_notes> notes_;
};

inline support::trained_model unsplit(const elastic_world_options& o) {
  const support::pipeline_case c{.ranks = 1,
                                 .micro_batches = o.micro_batches,
                                 .sequences = o.micro_batches,
                                 .steps = o.steps,
                                 .clip_norm = o.clip_norm};
  return support::train_whole(tied_gpt(o.layers), c, [] { return comm::every_step<>{}; });
}

// Ran to the end: so many of the hosts, with what the unsplit model has.
inline void check_result(tied_world& w, const elastic_world_options& o, std::uint32_t finished,
                         const support::trained_model& whole) {
  CHECK(errors_of(w, o.hosts).empty());
  CHECK(w.finished() >= finished);
  CHECK(w.distance(whole) < 5e-5);
  CHECK(w.tables().equal());
}

inline elastic_world_options five_peers() {
  elastic_world_options o;
  o.hosts = 5;
  o.layers = 6;
  o.micro_batches = 10;
  return o;
}

}  // namespace tied_tables

#endif  // CAUSEWAY_TESTS_PARALLEL_ELASTIC_ELASTIC_TIED_WORLD_HPP
