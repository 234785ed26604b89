// SPDX-License-Identifier: Apache-2.0
// Presets that fine-tune a served model, against a reference of the papers and the authors' code.

#include <causeway/optim/adamw.hpp>
#include <causeway/presets/served_models.hpp>
#include <causeway/sim/world.hpp>
#include <causeway/train/trainer.hpp>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "support/traced_runs.hpp"
#include "support/tuned_gpt.hpp"

using namespace causeway;
using support::must;
using support::valued;

namespace {

constexpr nn::gpt_options frozen{.layers = 3, .heads = 2, .width = 8, .context = 12, .vocabulary = 11};
constexpr std::int64_t sequences = 2;

std::vector<std::int32_t> tokens_of(const support::trace& t, const std::string& name) {
  const auto& numbers = t.numbers(name);
  return {numbers.begin(), numbers.end()};
}

/// Sets all of a store's tensors to numbers of the trace, `key(tensor)`.
template <class Key>
result<void> set(parameter_store& store, const support::trace& t, Key&& key) {
  for (std::size_t s = 0; s < store.segments().size(); ++s) {
    const auto& numbers = t.numbers(key(store.segments()[s].name));
    if (std::ssize(numbers) != store.segments()[s].size()) return fail(errc::corrupt, "trace", "another size");
    std::copy(numbers.begin(), numbers.end(), store.value(s));
  }
  store.touch();
  return {};
}

/// The largest difference over the largest value, of all tensors.
double difference(parameter_store& store, const support::trace& t, std::uint64_t step) {
  double worst = 0;
  for (std::size_t s = 0; s < store.segments().size(); ++s) {
    const auto& want = t.numbers(store.segments()[s].name + " " + std::to_string(step));
    double apart = 0, scale = 0;
    for (std::size_t i = 0; i < want.size(); ++i) {
      const double d = std::abs(double{store.value(s)[i]} - double{want[i]});
      apart = d <= apart ? apart : d;
      scale = std::max(scale, std::abs(double{want[i]}));
    }
    worst = apart / scale <= worst ? worst : apart / scale;
  }
  return worst;
}

/// A server of blocks [first, first + blocks) on each of two hosts, and a client on the third.
class served_trace {
 public:
  explicit served_trace(const std::string& name) : trace_{name} {
    serve(0, 2);
    serve(2, 1);
  }

  /// The largest difference of any step, its loss among them.
  template <class Options>
  double replay(Options o) {
    double worst = 0;
    bool done = false;
    world_.boot(world_.add_host({}), [&](sim::process& p) {
      o.fabric = p.make_fabric(100);
      o.model = frozen;
      o.source = source();
      o.client.run = 5;
      o.client.dial = {"host-0:1", "host-1:1"};
      auto model = valued(presets::make(o));
      must(set(model.parameters(), trace_, [](const std::string& tensor) { return tensor + " 0"; }));
      trainer_options options;
      options.learning_rate = optim::constant{trace_.learning_rate()};
      options.clip_norm = 0;
      auto trainer = make_trainer(std::move(model), environment{}, options, optim::adamw{});
      must(trainer.start());
      for (std::uint64_t step = 0; step < trace_.steps(0); ++step) worst = std::max(worst, advance(trainer, step));
      done = true;
    });
    for (int s = 0; s < 600 && !done; ++s) world_.run_for(std::chrono::seconds{1});
    REQUIRE(done);
    return worst;
  }

 private:
  stage::parameter_source source() {
    return [this](parameter_store& store) {
      return set(store, trace_, [](const std::string& tensor) { return "frozen " + tensor; });
    };
  }

  void serve(std::int64_t first, std::int64_t blocks) {
    const auto host = world_.add_host({});
    world_.boot(host, [this, host, first, blocks](sim::process& p) {
      parallel::block_server_options o;
      o.run = 5, o.first = first, o.blocks = blocks, o.seed = host;
      if (host > 0) o.dial = {"host-0:1"};
      presets::petals_server server{p.make_fabric(host + 1), o,
                                    valued(stage::frozen_blocks<nn::gpt_family>::create(frozen, source()))};
      must(server.open());
      (void)server.serve([] { return false; });
    });
  }

  template <class Trainer>
  double advance(Trainer& trainer, std::uint64_t step) {
    const std::string number = std::to_string(step);
    const auto inputs = tokens_of(trace_, "inputs " + number), targets = tokens_of(trace_, "targets " + number);
    const double loss = valued(trainer.step({inputs, targets, sequences})).loss;
    const double want{trace_.numbers("loss " + number).at(0)};
    return std::max(difference(trainer.model().parameters(), trace_, step + 1), std::abs(loss - want) / want);
  }

  support::trace trace_;
  sim::world world_{{.seed = 1}};
};

}  // namespace

TEST_CASE("traces: Petals with prompts", "[presets][trace][fast]") {
  CHECK(served_trace{"petals_finetune"}.replay(presets::petals_finetune_options{.prompts = {.rows = 2}}) < 1e-5);
}

TEST_CASE("traces: Petals with adapters", "[presets][trace][fast]") {
  CHECK(served_trace{"petals_lora"}.replay(presets::petals_lora_options{.adapters = {.rank = 2, .alpha = 4}}) < 1e-5);
}
