// SPDX-License-Identifier: Apache-2.0
// Swarms whose peers take gradients ahead (axis::gradient_ahead), each at parameters of its own: whoever stands in for a
// lost peer, a gradient is that of one loss.
#include <causeway/parallel/swarm.hpp>

#include <causeway/presets/compressed.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "parallel/swarm/swarm_gradient_cases.hpp"
#include "support/catch.hpp"

using namespace causeway;
using namespace std::chrono_literals;
using namespace support::gradients;
using support::named_parameters;
using support::swarm_world_options;

namespace {

/// Each value of what a peer sent last moves its look-ahead.
struct dense_ahead : steps_with_residual {
  static auto make() {
    return comm::rounds{axis::every{1}, axis::gradient_ahead{}, axis::one_round_late{}, axis::gather_mean<>{}};
  }
};

/// What a peer computed: of which micro-batch, at which parameters of its stage, and their gradient; none in a forward.
struct noted_gradient {
  std::uint64_t step = 0, peer = 0;
  std::uint32_t stage = 0, micro_batch = 0;
  named_parameters at, gradient;
};
using notes = std::deque<noted_gradient>;

/// Passes everything on, and notes what is computed.
class noting_computer final : public parallel::swarm_computer {
 public:
  noting_computer(parallel::swarm_computer& inner, parameter_store& store, noted_gradient what, notes& to)
      : inner_{inner}, store_{store}, what_{std::move(what)}, to_{to} {}

  [[nodiscard]] std::size_t most_bytes(const parallel::swarm_crossing& c) const override { return inner_.most_bytes(c); }
  result<void> take_in(const parallel::swarm_crossing& c, const parallel::boundary_bytes& bytes) override {
    return inner_.take_in(c, bytes);
  }
  result<parallel::swarm_output> forward(const parallel::swarm_crossing& c) override {
    what_.at = support::parameters_of(store_);
    what_.gradient.clear();
    to_.push_back(what_);
    return inner_.forward(c);
  }
  result<parallel::swarm_output> backward(const parallel::swarm_crossing& c) override {
    const std::vector<float> before{gradients().begin(), gradients().end()};
    auto out = inner_.backward(c);
    what_.micro_batch = c.micro_batch;
    what_.at = support::parameters_of(store_);
    what_.gradient = what_.at;
    for (const parameter_segment& s : store_.segments()) {
      auto& of = what_.gradient.at(s.name);
      const auto from = static_cast<std::size_t>(s.offset);
      for (std::size_t i = 0; i < of.size(); ++i) of[i] = gradients()[from + i] - before[from + i];
    }
    to_.push_back(what_);
    return out;
  }
  [[nodiscard]] std::span<float> gradients() override { return inner_.gradients(); }
  [[nodiscard]] double squares() override { return inner_.squares(); }
  void forget(std::uint32_t m) override { inner_.forget(m); }

 private:
  parallel::swarm_computer& inner_;
  parameter_store& store_;
  noted_gradient what_;
  notes& to_;
};

/// Gives a peer such computers.
struct noting_peer {
  std::uint64_t id = 0;
  std::uint32_t stage = 0;
  notes* to = nullptr;
  parameter_store* store = nullptr;
  std::unique_ptr<noting_computer> computer{};  ///< of the step under way

  parallel::swarm_computer& computes(std::uint64_t step, parallel::swarm_computer& made) {
    const noted_gradient what{.step = step, .peer = id, .stage = stage, .micro_batch = 0, .at = {}, .gradient = {}};
    computer = std::make_unique<noting_computer>(made, *store, what, *to);
    return *computer;
  }
};

/// For swarm_world.
struct noted_steps {
  static inline notes seen;
  static inline support::round_notes rounds;

  template <class Codec, class Router, class Model, class Body>
  static result<void> take(support::swarm_seat seat, Router router, Model model, const support::swarm_schedule& s,
                           Body&& body) {
    noting_peer noting{.id = seat.swarm->id(), .stage = seat.options.stage, .to = &seen};
    seat.made = [&noting](parallel::swarm_peer& peer) {
      auto watch = support::noting(peer, rounds);
      watch.computes = [&noting](std::uint64_t step, parallel::swarm_computer& made) -> parallel::swarm_computer& {
        return noting.computes(step, made);
      };
      peer.watch(std::move(watch));
    };
    const auto make = [&](std::shared_ptr<parallel::swarm_peer> round, environment env, const trainer_options& to,
                          const auto& fault) {
      return make_trainer(std::move(model), std::move(env), to, dense_ahead::make(), optim::sgd{}, fault,
                          parallel::swarm<Codec>{std::move(round)});
    };
    const auto watched = [&](auto& trainer, auto& peer) {
      noting.store = &trainer.model().parameters();
      return body(trainer, peer);
    };
    return support::take_seat_with(std::move(seat), std::move(router), s, make, watched);
  }
};
using noted_swarm = support::swarm_world<stage::routing::least_load, support::gpt_job, stage::plain, noted_steps>;

/// The whole model's gradient of a micro-batch, at the parameters of two stages.
named_parameters gradient_at(const named_parameters& first, const named_parameters& last, const noted_gradient& of,
                             const swarm_world_options& o) {
  static auto model = support::gpt_job{2}.make(nn::model_part{});
  auto& store = model.parameters();
  for (std::size_t i = 0; i < store.segments().size(); ++i) {
    const std::string& name = store.segments()[i].name;
    const auto& values = first.contains(name) ? first.at(name) : last.at(name);
    std::copy(values.begin(), values.end(), store.value(i));
  }
  store.touch();
  std::fill(store.gradients().begin(), store.gradients().end(), 0.0F);
  const auto whole = support::gpt_job{2}.batch({.micro_batches = o.micro_batches, .seed = o.seed}, of.step);
  const auto piece = whole.view().slice(2 * of.micro_batch, 2);
  (void)model.forward_backward(piece.inputs, piece.targets, 2, 1.0F / static_cast<float>(whole.tokens.size()), 0).value();
  named_parameters gradient = of.at;
  for (const parameter_segment& s : store.segments()) {
    if (!gradient.contains(s.name)) continue;
    auto& values = gradient.at(s.name);
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] = store.gradients()[static_cast<std::size_t>(s.offset) + i];
    }
  }
  return gradient;
}

/// How far a gradient is off that of one loss: at the parameters that its peer had, and those that some peer of the other
/// stage had in that step.
double off_one_loss(const noted_gradient& g, const notes& all, const swarm_world_options& o) {
  double least = HUGE_VAL;
  std::set<named_parameters> tried;
  for (const noted_gradient& other : all) {
    if (other.step != g.step || other.stage == g.stage || !tried.insert(other.at).second) continue;
    const named_parameters is = g.stage == 0 ? gradient_at(g.at, other.at, g, o) : gradient_at(other.at, g.at, g, o);
    double apart = 0, size = 0;
    for (const auto& [name, values] : g.gradient) {
      apart += support::squares_apart(values, is.at(name));
      for (const float v : is.at(name)) size += double{v} * v;
    }
    least = std::min(least, std::sqrt(apart / size));
    if (least < 1e-5) break;  // it is of that one
  }
  return least;
}

/// Micro-batches that a peer, or two of a stage, computed back twice in a step.
std::size_t computed_again(const notes& all) {
  std::set<std::vector<std::uint64_t>> once;
  std::size_t twice = 0;
  for (const noted_gradient& g : all) {
    if (!g.gradient.empty() && !once.insert({g.step, g.stage, g.micro_batch}).second) ++twice;
  }
  return twice;
}

swarm_world_options small_steps() {
  auto o = of_three();
  o.steps = 4, o.micro_batches = 6, o.rate = 0.01F;
  return o;
}

/// A host is killed at every `every`th network call. Gives how many micro-batches were computed twice.
std::size_t gradients_are_of_one_loss(std::uint64_t every, std::uint32_t victim) {
  std::size_t again = 0;
  auto o = small_steps();
  o.victim = victim, o.once_committed = true;
  const auto calls = support::calls_of_victim<noted_swarm>(o);
  for (std::uint64_t n = victim % every;; n = calls.after(n, every)) {
    INFO("host " << victim << " is killed at its network call " << n);
    o.dies_at = n;
    noted_steps::seen.clear();
    noted_swarm swarm{o};
    swarm.wanted = swarm.hosts() - 1;
    swarm.boot();
    swarm.run(2min);
    if (swarm.at(victim).calls <= n) return again;  // it has outlived the run
    (void)made_by(swarm, victim);
    double worst = 0;
    for (const noted_gradient& g : noted_steps::seen) {
      if (!g.gradient.empty()) worst = std::max(worst, off_one_loss(g, noted_steps::seen, o));
    }
    CHECK(worst < 1e-4);
    again += computed_again(noted_steps::seen);
  }
}

}  // namespace

TEST_CASE("swarm ahead: peers of a stage compute at parameters of their own, and a gradient is of one loss",
          "[parallel][fast]") {
  noted_steps::seen.clear();
  noted_swarm swarm{small_steps()};
  swarm.boot();
  swarm.run(2min);
  (void)made_by(swarm);
  std::set<std::pair<std::uint64_t, std::uint32_t>> several;
  for (const noted_gradient& g : noted_steps::seen) {
    if (g.gradient.empty()) continue;
    CHECK(off_one_loss(g, noted_steps::seen, small_steps()) < 1e-4);
    for (const noted_gradient& other : noted_steps::seen) {
      if (other.step == g.step && other.stage == g.stage && other.at != g.at) several.insert({g.step, g.stage});
    }
  }
  CHECK(several.size() == 6);  // both stages, in all steps but the first: no row has been sent then
}

TEST_CASE("swarm ahead: so it is whoever is lost, and what it had is computed again", "[parallel][fast]") {
  CHECK(gradients_are_of_one_loss(67, 1) + gradients_are_of_one_loss(67, 5) > 0);
}

TEST_CASE("swarm ahead: and at many more network calls", "[parallel][slow][every_call]") {
  CHECK(gradients_are_of_one_loss(11, 1) > 0);
  CHECK(gradients_are_of_one_loss(11, 4) > 0);
}

TEST_CASE("swarm ahead: who comes while others compute is given the parameters that all hold", "[parallel][fast]") {
  for (const causeway::duration later : {causeway::duration{500ms}, causeway::duration{1500ms}}) {
    swarm_world_options o{.speeds = {{1, 1, 1}, {1, 1, 1}}, .steps = 5, .micro_batches = 8, .block_seconds = 0.1};
    std::string said;
    o.late = {5}, o.trace = [&said](const std::string& line) {
      if (line.find("state transfer") != std::string::npos) said += line + "\n";
    };
    gradient_swarm<dense_ahead, stage::routing::least_load, support::timed_job> swarm{o};
    swarm.boot();
    while (swarm.at(0).ends.size() < 2) swarm.world().run_until(time_point{swarm.world().now().since_start + 10ms});
    swarm.world().run_until(time_point{swarm.world().now().since_start + later});
    CHECK(swarm.at(0).ends.size() == 2);  // in the middle of a step
    swarm.boot(5);
    swarm.run(2min);
    (void)made_by(swarm);
    CHECK(said.empty());
    CHECK(swarm.at(5).ends.size() >= 2);
  }
}
