// SPDX-License-Identifier: Apache-2.0
// What confining the residual stream costs and gives (Protocol Models): a small GPT in four stages at 80 Mbit/s, free with
// f32 activations, and confined to subspaces whose coordinates cross. On the simulator: what it computes is real, and every
// byte; time is virtual. Windows of the text are drawn at random, and most are never seen twice.
//
// usage: bench_e2e_subspace_losses [--text data/kjv.txt] [--seeds 2] [--steps 600] [--rate 3e-3] [--flops 1e13]
//
// Loss: nats per token, mean of the training losses of the last 50 steps, and of 256 windows that were not trained on.
#include <causeway/comm/every_step.hpp>
#include <causeway/nn/gpt.hpp>
#include <causeway/parallel/pipeline.hpp>
#include <causeway/sim/world.hpp>
#include <causeway/stage/subspace.hpp>
#include <causeway/stage/subspace_pieces.hpp>
#include <causeway/train/trainer.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace {

using namespace causeway;

constexpr std::int64_t context = 64, width = 128, layers = 4;
constexpr std::int64_t sequences = 16, micro_batches = 8;
constexpr std::uint32_t stages = 4;
constexpr std::uint64_t basis_seed = 3, averaged = 50;

struct options {
  std::string text = "data/kjv.txt";
  std::uint64_t seeds = 2;
  std::uint64_t steps = 600;
  float rate = 3e-3F;
  double flops = 1e13;
};

/// What of the paper's parts a row has.
struct variant {
  const char* name;
  std::int64_t rank = width;
  bool crosses = true;         ///< activations are coordinates; else f32, as the whole subspace of rank `width` gives
  bool confined = true;        ///< weights are kept in the subspace
  bool tables_inside = false;  ///< tables start in it, too
};

struct outcome {
  double training = 0, held_out = 0, megabytes = 0, step_seconds = 0;
};

using pipeline = parallel::pipeline<stage::opportunistic<stage::one_f_one_b>, stage::subspace<>>;

nn::gpt_options model_options() {
  nn::gpt_options o;
  o.layers = layers, o.heads = 4, o.width = width, o.context = context, o.vocabulary = 256;
  o.tie = false;
  return o;
}

auto must(auto&& value) {
  if (!value) throw std::runtime_error{value.error().text()};
  return std::forward<decltype(value)>(value);
}

batch windows(const std::vector<std::int32_t>& text, std::vector<std::int32_t>& in, std::vector<std::int32_t>& out,
              const std::vector<std::uint64_t>& which) {
  in.clear(), out.clear();
  for (const std::uint64_t w : which) {
    const auto at = text.begin() + static_cast<std::ptrdiff_t>(w) * context;
    in.insert(in.end(), at, at + context);
    out.insert(out.end(), at + 1, at + 1 + context);
  }
  return {in, out, static_cast<std::int64_t>(which.size())};
}

double step_compute(double flops) {
  return 3 * 24.0 * static_cast<double>(width * width * layers) / stages * static_cast<double>(sequences * context) / flops;
}

/// One stage's run.
outcome run_stage(const options& o, const variant& v, const std::vector<std::int32_t>& text, sim::process& process,
                  environment env, std::uint32_t peer, std::uint64_t seed) {
  const parallel::pipeline_options po{.micro_batches = micro_batches};
  const auto place = must(parallel::place_in(po, peer, stages));
  auto model =
      must(nn::gpt::create(model_options(), kernels::cpu_backend{1}, *must(parallel::part_of(po, *place, layers))));
  model->initialize(seed);
  auto basis = *must(stage::subspace_basis::random(basis_seed, width, v.rank));
  auto pieces = v.confined ? stage::residual_writers() : std::vector<stage::confined_pieces>{};
  for (auto& p : pieces) {
    if (v.tables_inside && p.what == stage::confined::row_changes) p.what = stage::confined::rows;
  }
  stage::confine(model->backend().pool(), model->parameters(), basis, pieces);
  trainer_options to;
  to.seed = seed;
  to.learning_rate = optim::warmup_cosine{o.rate, 40, o.steps, 0.1F};
  const std::int64_t sent_rank = v.crosses ? v.rank : width;
  auto t = make_trainer(std::move(*model), std::move(env), to, comm::every_step<>{},
                        pipeline{po, {{}, micro_batches}, stage::subspace<>{{.rank = sent_rank, .seed = basis_seed}}},
                        stage::subspace_adamw{std::move(basis), std::move(pieces)});
  (void)must(t.start());
  const std::uint64_t last = text.size() / context - 1, held_out = 256;
  rng draw{seed, 1};
  std::vector<std::int32_t> in, out;
  outcome result;
  const time_point began = process.now();
  const std::uint64_t sent = t.context().world().stats().bytes_sent;
  for (std::uint64_t s = 0; s < o.steps; ++s) {
    std::vector<std::uint64_t> which(sequences);
    for (auto& w : which) w = draw.below(last - held_out);
    process.compute(std::chrono::duration_cast<duration>(std::chrono::duration<double>(step_compute(o.flops))));
    const double loss = must(t.step(windows(text, in, out, which)))->loss;
    if (s + averaged >= o.steps) result.training += loss / averaged;
  }
  const auto steps = static_cast<double>(o.steps);
  result.step_seconds = seconds(process.now() - began) / steps;
  result.megabytes = static_cast<double>(t.context().world().stats().bytes_sent - sent) / steps / 1e6;
  std::vector<std::uint64_t> others;
  for (std::uint64_t w = last - held_out; w < last; ++w) others.push_back(w);
  result.held_out = *must(t.evaluate(windows(text, in, out, others)));
  return result;
}

outcome train(const options& o, const variant& v, const std::vector<std::int32_t>& text, std::uint64_t seed) {
  sim::world world{{.seed = seed, .link = {.latency = std::chrono::milliseconds{1}}}};
  std::vector<sim::host_index> hosts;
  for (std::uint32_t p = 0; p < stages; ++p)
    hosts.push_back(world.add_host({.up_bytes_per_s = 10e6, .down_bytes_per_s = 10e6}));
  outcome all;
  for (const auto host : hosts) {
    world.boot(host, [&, host](sim::process& process) {
      environment env;
      env.transport = net::any_transport{std::move(*must(process.make_transport(hosts)))};
      env.clock = process.clock();
      const outcome own = run_stage(o, v, text, process, std::move(env), host, seed);
      all.megabytes += own.megabytes;
      if (host == 0) all.training = own.training, all.held_out = own.held_out, all.step_seconds = own.step_seconds;
    });
  }
  if (!world.run()) throw std::runtime_error{"the simulation stopped"};
  return all;
}

options parse(int argc, char** argv) {
  options o;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string key = argv[i];
    if (key == "--text")
      o.text = argv[i + 1];
    else if (key == "--seeds")
      o.seeds = std::strtoull(argv[i + 1], nullptr, 10);
    else if (key == "--steps")
      o.steps = std::strtoull(argv[i + 1], nullptr, 10);
    else if (key == "--rate")
      o.rate = std::strtof(argv[i + 1], nullptr);
    else if (key == "--flops")
      o.flops = std::strtod(argv[i + 1], nullptr);
    else {
      std::fprintf(stderr, "subspace_losses: %s? The head of bench/e2e/subspace_losses.cpp says what there is\n", argv[i]);
      std::exit(2);
    }
  }
  return o;
}

}  // namespace

int main(int argc, char** argv) {
  const options o = parse(argc, argv);
  std::ifstream file{o.text, std::ios::binary};
  const std::vector<char> bytes{std::istreambuf_iterator<char>{file}, {}};
  if (bytes.size() < 1024 * context || o.steps < averaged) {
    std::fprintf(stderr, "subspace_losses: %s is missing or too short, or fewer than 50 steps\n", o.text.c_str());
    return 2;
  }
  std::vector<std::int32_t> text;
  for (const char c : bytes) text.push_back(static_cast<unsigned char>(c));
  const std::vector<variant> rows{{"free, f32 activations", width, false, false},
                                  {"confined to 32", 32},
                                  {"confined to 16", 16},
                                  {"confined to 8", 8},
                                  {"16, tables inside, too", 16, true, true, true},
                                  {"16 cross, model is free", 16, true, false}};
  std::printf("%u stages, 80 Mbit/s and 1 ms between them, %llu steps, %llu seeds, rate %g\n", stages,
              static_cast<unsigned long long>(o.steps), static_cast<unsigned long long>(o.seeds),
              static_cast<double>(o.rate));
  std::printf("%-26s %11s %11s %9s %9s %9s\n", "model", "train loss", "held out", "to free", "MB/step", "ms/step");
  double free_loss = 0;
  for (const variant& v : rows) {
    outcome mean;
    for (std::uint64_t seed = 1; seed <= o.seeds; ++seed) {
      const outcome one = train(o, v, text, seed);
      const auto part = 1.0 / static_cast<double>(o.seeds);
      mean.training += one.training * part, mean.held_out += one.held_out * part;
      mean.megabytes += one.megabytes * part, mean.step_seconds += one.step_seconds * part;
    }
    if (free_loss == 0) free_loss = mean.held_out;
    std::printf("%-26s %11.4f %11.4f %+8.2f%% %9.3f %9.1f\n", v.name, mean.training, mean.held_out,
                100 * (mean.held_out / free_loss - 1), mean.megabytes, 1000 * mean.step_seconds);
    std::fflush(stdout);
  }
}
