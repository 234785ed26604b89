// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TESTS_PARALLEL_ELASTIC_WHOLE_ROUNDS_HPP
#define CAUSEWAY_TESTS_PARALLEL_ELASTIC_WHOLE_ROUNDS_HPP

// Elastic pipelines that gather gradients until all peers together have enough samples (DeDLOC), and what that comes to.

#include <causeway/comm/every_step.hpp>
#include <causeway/presets/compressed.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "parallel/elastic/gradient_world.hpp"
#include "support/catch.hpp"

namespace support {

/// A batch has four samples, so a round has three: eleven are more than two have.
constexpr std::uint64_t round_steps = 3;
struct gathering {
  static auto make() { return causeway::presets::make(causeway::presets::dedloc_options{.batch = 11}); }
};

/// Two rounds, and two steps that are left over when the run ends.
inline elastic_world_options eight_steps(elastic_world_options o = two_pipelines()) {
  o.steps = 8;
  return o;
}

/// The whole model, on one batch of all that a round has.
inline trained_model in_whole_rounds(const elastic_world_options& o, const causeway::nn::gpt_options& of) {
  using namespace causeway;
  trainer_options to;
  to.learning_rate = optim::constant{0.01F};
  to.clip_norm = o.clip_norm;
  auto model = nn::gpt::create(of, kernels::cpu_backend{1});
  auto t = make_trainer(std::move(*model), environment{}, to, comm::every_step<>{}, optim::adamw{});
  REQUIRE(t.start());
  trained_model out;
  for (std::uint64_t first = 0; first < o.steps; first += round_steps) {
    std::vector<std::int32_t> inputs, targets;
    std::vector<std::uint64_t> samples;
    for (std::uint64_t s = first; s < std::min(first + round_steps, o.steps); ++s) {
      const token_batch b{0, s, o.micro_batches};
      const auto loss = t.evaluate(b.view());
      REQUIRE(loss);
      out.losses.push_back(*loss);
      inputs.insert(inputs.end(), b.inputs.begin(), b.inputs.end());
      targets.insert(targets.end(), b.targets.begin(), b.targets.end());
      samples.insert(samples.end(), b.samples.begin(), b.samples.end());
    }
    REQUIRE(t.step({inputs, targets, static_cast<std::int64_t>(samples.size()), samples}));
  }
  detail::collect(t.model().parameters(), out.parameters);
  return out;
}

inline trained_model in_whole_rounds(const elastic_world_options& o) { return in_whole_rounds(o, small_gpt(o.layers)); }

/// Whoever is killed, a round is of the same samples. `every`: call of the victim's network; from the one on after which
/// the run is founded. `each(world)`: what else holds.
template <class Policy = gathering>
void comes_to_whole_rounds(
    elastic_world_options o, std::uint32_t victim, std::uint64_t every,
    const std::function<void(any_elastic_world&)>& each = [](any_elastic_world&) {}) {
  std::vector<distinct_calls> calls;
  undisturbed_gradients<Policy>(o, &calls);
  const auto whole = in_whole_rounds(o);
  bool comes_back = false;
  const std::uint64_t first = (victim == 0 ? 2 : 1) * founded + victim;
  for (std::uint64_t n = first; n < calls[victim].count(); n = calls[victim].after(n, every)) {
    INFO("host " << victim << " is killed at call " << n);
    o.victim = victim;
    o.dies_at = n;
    o.back_after = std::exchange(comes_back, !comes_back) ? std::chrono::milliseconds{200} : causeway::duration{0};
    gradient_world<Policy> w{o};
    w.wanted = o.hosts - 1;
    w.boot();
    w.run();
    CHECK(errors_of(w, o.hosts).empty());
    CHECK(w.finished() >= o.hosts - 1);
    CHECK(w.distance(whole) < 5e-5);
    holders_agree(w, o.hosts);
    each(w);
  }
}

}  // namespace support

#endif  // CAUSEWAY_TESTS_PARALLEL_ELASTIC_WHOLE_ROUNDS_HPP
