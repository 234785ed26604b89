// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TESTS_PARALLEL_ELASTIC_HUBS_OF_STAGES_HPP
#define CAUSEWAY_TESTS_PARALLEL_ELASTIC_HUBS_OF_STAGES_HPP

// Pipelines whose peers come and go, with a hub for each stage: policies, and what one hub of whole models comes to.

#include <causeway/presets/asynchronous.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <set>
#include <span>
#include <vector>

#include "parallel/elastic/local_pipeline_world.hpp"
#include "parallel/elastic/newcomers.hpp"
#include "support/catch.hpp"
#include "support/hub_by_hand.hpp"

namespace support {

/// A record after three steps of the quickest replica, on batches of four samples.
struct async_local_sgd {
  [[nodiscard]] static auto policy() {
    return make(causeway::presets::async_local_sgd_options{.local_steps = 1, .period = 2, .record_samples = 12});
  }
};
struct decoupled_diloco {
  [[nodiscard]] static auto policy() {
    return make(causeway::presets::decoupled_diloco_options{
        .local_steps = 2, .fragments = 2, .overlap_steps = 1, .outer_momentum = 0.5F, .record_samples = 12});
  }
};
/// Two regions, which push to the hub of hubs after every second push.
struct halos {
  [[nodiscard]] static auto policy() {
    return make(causeway::presets::halos_options{.regions = {}, .local_steps = 1, .pushes = 2, .record_samples = 12});
  }
};
/// Pushes after every second step, a record after four, of so many samples.
template <std::uint64_t Samples>
struct in_pairs {
  static constexpr std::uint64_t batch = Samples, steps_to_record = 4;
  [[nodiscard]] static auto policy() {
    using namespace causeway;
    return comm::async_parameter_server{
        axis::every{2}, axis::star{.record_samples = batch * steps_to_record},
        axis::outer<optim::delayed_nesterov>{0.7F, optim::delayed_nesterov{{.momentum = 0.9F, .period = 2}}}};
  }
};

/// Two whole models and their hub, where two pipelines with the
/// policy `in_pairs` make the same steps. The second one is slower, and waits for answers of the first one's hubs, which
/// are in a step of theirs: so it makes fewer steps from record to record. Which they are is taken from the run. Pushes
/// come in turn, the first pipeline's first.
class hub_of_two {
 public:
  /// What the pipelines come to.
  template <class Policy>
  parameters run(elastic_world_options o) {
    until_record_ = Policy::steps_to_record;
    std::array<std::set<std::uint64_t>, 4> began;
    local_world<Policy>* running = nullptr;
    const auto replica_of = [&](std::uint32_t host) {
      causeway::stage::layout::place at;
      const auto& me = running->at(host);
      if (!me.layouts.empty()) REQUIRE(me.layouts.begin()->second.find(me.id, &at) != nullptr);
      return at.replica;
    };
    o.before_step = [&](std::uint32_t host, std::uint64_t step) {
      began[host].insert(step);
      running->world().running()->sleep(std::chrono::milliseconds{replica_of(host) == 0 ? 100 : 130});
    };
    local_world<Policy> w{o};
    running = &w;
    w.boot();
    w.run();
    CHECK(errors_of(w, o.hosts).empty());
    REQUIRE(w.finished() == 4);
    for (std::uint32_t h = 0; h < 4; ++h) {
      auto& made = made_[replica_of(h)];
      CHECK((made.empty() || made == began[h]));  // all stages make the same steps
      made = began[h];
    }
    CHECK(made_[0].size() == o.steps);
    CHECK(made_[1].size() < o.steps);
    return holders_agree(w, o.hosts);
  }

  [[nodiscard]] bool makes(std::size_t model, std::uint64_t step) const { return made_[model].contains(step); }
  /// Whether it is the model's last one before a record.
  [[nodiscard]] bool is_last(std::size_t model, std::uint64_t step) const {
    const auto next = made_[model].upper_bound(step);
    return next == made_[model].end() || *next / until_record_ != step / until_record_;
  }

  /// What is exchanged after so many steps.
  void after_step(std::uint64_t steps, std::span<float> shared, const std::array<std::span<float>, 2>& models) {
    if (steps == 1) pulled_.fill({shared.begin(), shared.end()});
    const bool record = steps % until_record_ == 0;
    for (std::size_t m = 0; m < 2; ++m) {
      since_[m] += makes(m, steps - 1) ? 1 : 0;
      if (since_[m] != 2 && !(record && since_[m] > 0)) continue;
      hub_.push(shared, pulled_[m], models[m]);
      since_[m] = 0;
    }
    for (std::size_t m = 0; record && m < 2; ++m) hub_.pull(shared, pulled_[m], models[m]);
  }

 private:
  std::uint64_t until_record_ = 0;
  std::array<std::set<std::uint64_t>, 2> made_;
  std::array<std::vector<float>, 2> pulled_;
  std::array<std::uint32_t, 2> since_{};
  hub_by_hand hub_;
};

/// The spare one makes no steps, and with the newcomer there are two pipelines.
template <class Policy>
void newcomers_push() {
  newcomer_in_each_step<local_world<Policy>>(7, 15, [](auto& w, const auto& o) {
    for (std::uint32_t h = 0; h < o.hosts; ++h) CHECK(w.last_assignment(h) != nullptr);
  });
}

/// The loss stays as it is without faults.
template <class Policy>
void spare_peers_push() {
  auto o = two_pipelines();
  o.steps = 12;
  spare_peers_take_over<Policy>(o, 700, 97, [&](const auto& all, const auto& quiet) {
    CHECK(std::abs(held_out_loss(all, o.layers) / held_out_loss(quiet, o.layers) - 1) < 0.03);
  });
}

/// After a record with the same bits. In the middle of a reign hubs are none any more, and all that was pushed since the
/// record is pushed again in the next one, which comes at once.
template <class Policy>
void hubs_go_on_when_all_were_stopped() {
  const auto o = two_pipelines();
  const auto quiet = undisturbed<Policy>(o);
  for (const std::uint64_t step : {3U, 4U}) {
    INFO("all are stopped after step " << step);
    local_checkpoints saved{.after = step};
    local_world<Policy> w{o, &saved};
    stop_all_once_saved(w, saved);
    CHECK(errors_of(w, o.hosts).empty());
    REQUIRE(w.finished() == o.hosts);
    const auto all = holders_agree(w, o.hosts);
    if (step == 3) CHECK(all == quiet);
    CHECK(std::abs(held_out_loss(all, o.layers) / held_out_loss(quiet, o.layers) - 1) < 0.03);
  }
}

}  // namespace support

#endif  // CAUSEWAY_TESTS_PARALLEL_ELASTIC_HUBS_OF_STAGES_HPP
