// SPDX-License-Identifier: Apache-2.0

// How much of the time that a schedule needs by theory a real pipeline takes: stages of a GPT on threads of this machine,
// one core each. Theory is the schedule with the mean seconds that each stage's forwards and backwards took in the same
// steps, and links that cost nothing; what is above it are messages, waiting for the scheduler and unequal passes. Both are
// of the same steps, so a noisy machine disturbs both alike.
//   schedule_efficiency [--stages N] [--micro-batches N] [--steps N] [--pace N]
//
// With more stages than cores, a pace: each pass occupies its stage for N times the processor time that it took, as a
// device would that is N times as slow, so that N stages share a core without waiting for it.

#include <causeway/comm/every_step.hpp>
#include <causeway/kernels/backend.hpp>
#include <causeway/net/memory_transport.hpp>
#include <causeway/nn/gpt.hpp>
#include <causeway/optim/adamw.hpp>
#include <causeway/parallel/pipeline.hpp>
#include <causeway/plan/stage_costs.hpp>
#include <causeway/plan/timeline.hpp>
#include <causeway/train/trainer.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace {

using namespace causeway;
using clock_type = std::chrono::steady_clock;

/// Of the processor, by this thread.
double processor_seconds() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

/// Seconds and number of the passes of one stage.
struct passes {
  double pace = 1;
  double forward = 0, backward = 0, input = 0, weight = 0;
  std::uint64_t forwards = 0, backwards = 0, inputs = 0, weights = 0;
  clock_type::time_point begin{}, end{};  ///< of the step under way: its first and last pass
  bool begun = false;

  /// Runs a pass and notes what it took.
  template <class F>
  auto timed(double& sum, std::uint64_t& count, F&& f) {
    const auto from = clock_type::now();
    const double used = processor_seconds();
    auto out = f();
    if (pace > 1) std::this_thread::sleep_until(from + paced(pace * (processor_seconds() - used)));
    end = clock_type::now();
    if (!std::exchange(begun, true)) begin = from;
    sum += std::chrono::duration<double>(end - from).count();
    ++count;
    return out;
  }

  static clock_type::duration paced(double seconds) {
    return std::chrono::duration_cast<clock_type::duration>(std::chrono::duration<double>(seconds));
  }
  static double mean(double sum, std::uint64_t n) { return n == 0 ? 0 : sum / static_cast<double>(n); }
  /// A whole backward counts as its two halves.
  [[nodiscard]] plan::stage_cost cost() const {
    const double whole = mean(backward, backwards);
    return {mean(forward, forwards), whole / 2 + mean(input, inputs), whole / 2 + mean(weight, weights), 0};
  }
};

/// A GPT that notes what its passes take.
class clocked_gpt {
 public:
  using tape_type = nn::gpt::tape_type;
  clocked_gpt(nn::gpt model, passes& notes) : model_{std::move(model)}, notes_{&notes} {}

  parameter_store& parameters() { return model_.parameters(); }
  auto& backend() { return model_.backend(); }
  [[nodiscard]] std::uint64_t config_hash() { return model_.config_hash(); }
  using tokens = std::span<const std::int32_t>;
  result<double> forward_backward(tokens in, tokens out, std::int64_t n, float scale, std::uint64_t stream) {
    return model_.forward_backward(in, out, n, scale, stream);
  }
  result<double> evaluate(tokens in, tokens out, std::int64_t n) { return model_.evaluate(in, out, n); }

  tape_type make_tape() { return model_.make_tape(); }
  [[nodiscard]] std::int64_t blocks() const { return model_.blocks(); }
  [[nodiscard]] std::int64_t width() const { return model_.width(); }
  [[nodiscard]] const nn::model_part& part() const { return model_.part(); }
  [[nodiscard]] std::size_t tied_table() const { return model_.tied_table(); }
  [[nodiscard]] bool shares_table() const { return model_.shares_table(); }
  [[nodiscard]] bool joined_ends() const { return model_.joined_ends(); }
  [[nodiscard]] parameter_store declared_parameters() const { return model_.declared_parameters(); }
  result<nn::stage_pass> forward_stage(tape_type& t, nn::block_range r, const nn::micro_batch& b, tensor boundary,
                                       nn::pass_kind kind) {
    return notes_->timed(notes_->forward, notes_->forwards,
                         [&] { return model_.forward_stage(t, r, b, std::move(boundary), kind); });
  }
  result<tensor> backward_stage(tape_type& t, const nn::stage_pass& s, tensor d) {
    return notes_->timed(notes_->backward, notes_->backwards, [&] { return model_.backward_stage(t, s, std::move(d)); });
  }
  result<tensor> backward_inputs(tape_type& t, const nn::stage_pass& s, tensor d) {
    return notes_->timed(notes_->input, notes_->inputs, [&] { return model_.backward_inputs(t, s, std::move(d)); });
  }
  result<void> backward_weights(tape_type& t) {
    return notes_->timed(notes_->weight, notes_->weights, [&] { return model_.backward_weights(t); });
  }

 private:
  nn::gpt model_;
  passes* notes_;
};

struct shape {
  std::uint32_t stages = 2;
  std::uint32_t micro_batches = 8;
  std::uint64_t steps = 12;
  double pace = 1;
  nn::gpt_options model{.layers = 4, .heads = 4, .width = 256, .context = 128, .vocabulary = 2048, .tie = false};
};

[[noreturn]] void end(const std::string& why) {
  std::fprintf(
      stderr,
      "schedule_efficiency: %s\nusage: schedule_efficiency [--stages N] [--micro-batches N] [--steps N] [--pace N]\n",
      why.c_str());
  std::exit(2);
}
template <class T>
T valued(result<T> r) {
  if (!r) end(r.error().text());
  return std::move(*r);
}

struct measured {
  std::vector<passes> stages;
  double step = 0;  ///< seconds from the first pass of a step to the last, anywhere
};

/// All stages, each a thread. The optimizer's part of a step is not timed: theory has none.
template <class Order>
measured train(const shape& s, Order order) {
  measured out{std::vector<passes>(s.stages, passes{.pace = s.pace}), 0};
  net::memory_network network{s.stages};
  std::vector<std::vector<passes>> steps(s.stages);  // what is noted after each
  std::vector<std::thread> threads;
  for (std::uint32_t rank = 0; rank < s.stages; ++rank) {
    threads.emplace_back([&, rank] {
      environment env;
      env.transport = net::any_transport{network.transport(rank)};
      const parallel::pipeline_options options{.micro_batches = s.micro_batches};
      const auto place = valued(parallel::place_in(options, rank, s.stages));
      auto part = valued(parallel::part_of(options, place, s.model.layers, order.chunks()));
      auto model = valued(nn::gpt::create(s.model, kernels::cpu_backend{1}, std::move(part)));
      passes& notes = out.stages[rank];
      auto t = make_trainer(clocked_gpt{std::move(model), notes}, std::move(env), trainer_options{}, comm::every_step<>{},
                            optim::adamw{}, parallel::pipeline<Order>{options, order});
      if (const auto started = t.start(); !started) end(started.error().text());
      std::mt19937 random{7};
      const auto length = static_cast<std::size_t>(s.model.context) * s.micro_batches;
      std::vector<std::int32_t> tokens(length);
      for (auto& token : tokens) token = static_cast<std::int32_t>(random() % static_cast<unsigned>(s.model.vocabulary));
      const batch b{tokens, tokens, s.micro_batches};
      for (std::uint64_t step = 0; step < s.steps + 2; ++step) {
        if (step == 2) notes = {.pace = s.pace};  // the first steps take memory
        notes.begun = false;
        const auto report = t.step(b);
        if (!report) end(report.error().text());
        if (step >= 2) steps[rank].push_back(notes);
      }
    });
  }
  for (auto& t : threads) t.join();
  for (std::uint64_t step = 0; step < s.steps; ++step) {
    auto begin = clock_type::time_point::max(), end = clock_type::time_point::min();
    for (const auto& of_rank : steps) begin = std::min(begin, of_rank[step].begin), end = std::max(end, of_rank[step].end);
    out.step += std::chrono::duration<double>(end - begin).count() / static_cast<double>(s.steps);
  }
  return out;
}

template <class Order>
void show(const char* name, const shape& s, Order order) {
  const measured m = train(s, order);
  plan::stage_costs costs = plan::equal_costs(s.stages);
  for (std::uint32_t v = 0; v < s.stages; ++v) costs.stages[v] = m.stages[v].cost();
  const auto schedule = valued(order.make(s.stages, s.micro_batches));
  const double theory = valued(plan::timeline_of(schedule, costs)).makespan;
  std::printf("| %s | %.1f | %.1f | %.3f |\n", name, 1e3 * theory, 1e3 * m.step, theory / m.step);
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  shape s;
  for (int i = 1; i < argc; i += 2) {
    const std::string flag = argv[i];
    const long value = i + 1 < argc ? std::atol(argv[i + 1]) : 0;
    if (value < 1) end(flag + " needs a number above 0");
    if (flag == "--stages") {
      s.stages = static_cast<std::uint32_t>(value);
    } else if (flag == "--micro-batches") {
      s.micro_batches = static_cast<std::uint32_t>(value);
    } else if (flag == "--steps") {
      s.steps = static_cast<std::uint64_t>(value);
    } else if (flag == "--pace") {
      s.pace = static_cast<double>(value);
    } else {
      end("there is no " + flag);
    }
  }
  if (s.stages > s.model.layers) end("at most 4 stages");
  std::printf("%u stages on %u cores, %u micro-batches, pace %.0f, GPT of %lld blocks, width %lld, %lld tokens each\n\n",
              s.stages, std::thread::hardware_concurrency(), s.micro_batches, s.pace,
              static_cast<long long>(s.model.layers), static_cast<long long>(s.model.width),
              static_cast<long long>(s.model.context));
  std::printf("| schedule | theory, ms | measured, ms | efficiency |\n|---|---|---|---|\n");
  for (int round = 0; round < 3; ++round) {
    show("GPipe", s, stage::gpipe{});
    show("1F1B", s, stage::one_f_one_b{});
    show("zero bubble", s, stage::zero_bubble{});
  }
}
