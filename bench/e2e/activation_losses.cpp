// SPDX-License-Identifier: Apache-2.0
// Two stages at 100 Mbit/s: step rate and loss of activation codecs, beside f32 activations (target L9: AQ-SGD at 4 bits as
// good as f32, quantising activations directly worse). A small GPT on the simulator: what it computes is real, and every
// byte; time is virtual. A stage computes at --flops, so quickly that the link decides, as with AQ-SGD's machines.
//
// usage: bench_e2e_activation_losses [--text data/kjv.txt] [--seeds 3] [--epochs 12] [--flops 1e13]
//
// The text's first --windows windows are seen --epochs times in another order each time: the deltas need samples that come
// again. Loss: nats per token on text behind them, mean over the seeds, and the mean training loss of the last epoch.
#include <causeway/comm/every_step.hpp>
#include <causeway/compress/bits.hpp>
#include <causeway/compress/block_int8.hpp>
#include <causeway/compress/fp16.hpp>
#include <causeway/nn/gpt.hpp>
#include <causeway/optim/adamw.hpp>
#include <causeway/parallel/pipeline.hpp>
#include <causeway/sim/world.hpp>
#include <causeway/stage/activation.hpp>
#include <causeway/stage/delta.hpp>
#include <causeway/train/trainer.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <numeric>
#include <stdexcept>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace {

using namespace causeway;

constexpr std::int64_t context = 64;
constexpr std::int64_t sequences = 16;  // of a step
constexpr std::int64_t micro_batches = 8;
constexpr std::uint32_t stages = 2;

// Slow links want more micro-batches under way than 1F1B keeps.
using schedule = stage::opportunistic<stage::one_f_one_b>;

// One type of pipeline for all rows.
class any_activations {
 public:
  static constexpr std::string_view name = "any";
  static constexpr stage::activation_traits traits{.stateful = true};
  static constexpr std::uint32_t state_version = 1;
  template <stage::ActivationCodec A>
  static any_activations of(A codec) {
    any_activations any;
    any.it_ = std::move(codec);
    return any;
  }
  [[nodiscard]] std::size_t most_bytes(const stage::crossing& c) const {
    return std::visit([&](const auto& a) { return a.most_bytes(c); }, it_);
  }
  result<std::size_t> encode(thread_pool& pool, const stage::crossing& c, std::span<const float> v,
                             std::span<std::byte> room) {
    return std::visit([&](auto& a) { return a.encode(pool, c, v, room); }, it_);
  }
  result<void> decode(thread_pool& pool, const stage::crossing& c, std::span<const std::byte> b, std::span<float> v) {
    return std::visit([&](auto& a) { return a.decode(pool, c, b, v); }, it_);
  }
  void begin_step() {
    std::visit([](auto& a) { a.begin_step(); }, it_);
  }
  result<void> commit_step() {
    return std::visit([](auto& a) { return a.commit_step(); }, it_);
  }
  [[nodiscard]] std::uint64_t agreement() const { return it_.index(); }
  void serialize(auto& ar) {
    std::visit([&ar](auto& a) { a.serialize(ar); }, it_);
  }

 private:
  std::variant<stage::plain, stage::coded<compress::fp16>, stage::coded<compress::block_int8>,
               stage::coded<compress::bits<4>, compress::bits<8>>, stage::coded<compress::bits<4>>,
               stage::coded<compress::bits<2>, compress::bits<4>>, stage::delta<4, 8>, stage::delta<4, 4>,
               stage::delta<2, 4>>
      it_;
};

struct options {
  std::string text = "data/kjv.txt";
  std::uint64_t seeds = 3;
  std::uint64_t epochs = 12;
  std::uint64_t windows = 512;
  double flops = 1e13;
  float rate = 3e-3F;
};

struct text_windows {
  std::vector<std::int32_t> tokens;

  [[nodiscard]] std::pair<std::vector<std::int32_t>, std::vector<std::int32_t>> of(
      const std::vector<std::uint64_t>& which) const {
    std::vector<std::int32_t> in, out;
    for (const std::uint64_t w : which) {
      const auto at = tokens.begin() + static_cast<std::ptrdiff_t>(w) * context;
      in.insert(in.end(), at, at + context);
      out.insert(out.end(), at + 1, at + 1 + context);
    }
    return {std::move(in), std::move(out)};
  }
};

nn::gpt_options model_options() {
  nn::gpt_options o;
  o.layers = 2, o.heads = 4, o.width = 128, o.context = context, o.vocabulary = 256;
  o.tie = false;  // no table to exchange: activations alone cross
  return o;
}

struct outcome {
  double training = 0;    ///< mean loss of the last epoch
  double validation = 0;  ///< on text that was not trained on
  double step_seconds = 0;
  double megabytes = 0;  ///< sent by both peers in a step
};

// Virtual seconds that a rank computes for one micro-batch, forward; backward is twice that.
double forward_seconds(double flops) {
  const auto o = model_options();
  const double per_token = 24.0 * static_cast<double>(o.width * o.width * o.layers) / stages;
  return per_token * static_cast<double>(sequences / micro_batches * context) / flops;
}

outcome train(const options& o, const text_windows& text, const any_activations& codec, std::uint64_t seed) {
  sim::world world{{.seed = seed, .link = {.latency = std::chrono::milliseconds{1}}}};
  std::vector<sim::host_index> hosts;
  for (std::uint32_t p = 0; p < stages; ++p)
    hosts.push_back(world.add_host({.up_bytes_per_s = 12.5e6, .down_bytes_per_s = 12.5e6}));
  const std::uint64_t per_epoch = o.windows / sequences;
  const std::uint64_t steps = o.epochs * per_epoch;
  outcome result;
  for (const auto host : hosts) {
    world.boot(host, [&, host](sim::process& process) {
      const auto must = [&](auto&& value) {
        if (!value) throw std::runtime_error{value.error().text()};
        return std::forward<decltype(value)>(value);
      };
      environment env;
      env.transport = net::any_transport{std::move(*must(process.make_transport(hosts)))};
      env.clock = process.clock();
      const parallel::pipeline_options po{.micro_batches = micro_batches};
      const auto place = must(parallel::place_in(po, host, stages));
      auto model = must(nn::gpt::create(model_options(), kernels::cpu_backend{1},
                                        *must(parallel::part_of(po, *place, model_options().layers))));
      model->initialize(seed);
      trainer_options to;
      to.seed = seed;
      to.learning_rate = optim::warmup_cosine{o.rate, 20, steps, 0.1F};
      auto t = make_trainer(std::move(*model), std::move(env), to, comm::every_step<>{}, optim::adamw{},
                            parallel::pipeline<schedule, any_activations>{po, schedule{{}, micro_batches}, codec});
      if (const auto started = t.start(); !started) throw std::runtime_error{started.error().text()};
      const double compute = 3 * forward_seconds(o.flops) * micro_batches;
      double last = 0;
      const time_point begin = process.now();
      const std::uint64_t sent = t.context().world().stats().bytes_sent;
      std::vector<std::uint64_t> order(o.windows);
      for (std::uint64_t s = 0; s < steps; ++s) {
        if (s % per_epoch == 0) {
          std::iota(order.begin(), order.end(), 0U);
          rng draw{seed, s};
          causeway::shuffle(order, draw);
          last = 0;
        }
        const std::vector<std::uint64_t> ids{order.begin() + static_cast<std::ptrdiff_t>(s % per_epoch) * sequences,
                                             order.begin() + static_cast<std::ptrdiff_t>(s % per_epoch + 1) * sequences};
        const auto [in, out] = text.of(ids);
        process.compute(std::chrono::duration_cast<duration>(std::chrono::duration<double>(compute)));
        last += must(t.step({in, out, sequences, ids}))->loss;
      }
      const double took = seconds(process.now() - begin);
      const auto bytes = static_cast<double>(t.context().world().stats().bytes_sent - sent);
      std::vector<std::uint64_t> held_out(256);
      std::iota(held_out.begin(), held_out.end(), o.windows);
      const auto [in, out] = text.of(held_out);
      const double validation = *must(t.evaluate({in, out, static_cast<std::int64_t>(held_out.size())}));
      result.megabytes += bytes / static_cast<double>(steps) / 1e6;
      if (host == 0) {
        result.training = last / static_cast<double>(per_epoch);
        result.validation = validation;
        result.step_seconds = took / static_cast<double>(steps);
      }
    });
  }
  if (!world.run()) throw std::runtime_error{"the simulation stopped"};
  return result;
}

options parse(int argc, char** argv) {
  options o;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string key = argv[i];
    if (key == "--text")
      o.text = argv[i + 1];
    else if (key == "--seeds")
      o.seeds = std::strtoull(argv[i + 1], nullptr, 10);
    else if (key == "--epochs")
      o.epochs = std::strtoull(argv[i + 1], nullptr, 10);
    else if (key == "--windows")
      o.windows = std::strtoull(argv[i + 1], nullptr, 10);
    else if (key == "--flops")
      o.flops = std::strtod(argv[i + 1], nullptr);
    else {
      std::fprintf(stderr, "activation_losses: %s? The head of bench/e2e/activation_losses.cpp says what there is\n",
                   argv[i]);
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
  if (bytes.size() < (o.windows + 257) * context) {
    std::fprintf(stderr, "activation_losses: %s is missing or too short; give a text with --text\n", o.text.c_str());
    return 2;
  }
  text_windows text;
  for (const char c : bytes) text.tokens.push_back(static_cast<unsigned char>(c));
  const std::vector<std::pair<const char*, any_activations>> rows{
      {"f32", any_activations::of(stage::plain{})},
      {"fp16", any_activations::of(stage::coded<compress::fp16>{})},
      {"block int8", any_activations::of(stage::coded<compress::block_int8>{})},
      {"delta 4 bits, back 8", any_activations::of(stage::delta<4, 8>{})},
      {"delta 4 bits, back 4", any_activations::of(stage::delta<4, 4>{})},
      {"delta 2 bits, back 4", any_activations::of(stage::delta<2, 4>{})},
      {"direct 4 bits, back 8", any_activations::of(stage::coded<compress::bits<4>, compress::bits<8>>{})},
      {"direct 4 bits, back 4", any_activations::of(stage::coded<compress::bits<4>>{})},
      {"direct 2 bits, back 4", any_activations::of(stage::coded<compress::bits<2>, compress::bits<4>>{})}};
  std::printf("%u stages, 100 Mbit/s and 1 ms between them, %llu steps, %llu seeds\n", stages,
              static_cast<unsigned long long>(o.epochs * o.windows / sequences), static_cast<unsigned long long>(o.seeds));
  std::printf("%-24s %12s %12s %10s %10s %9s %9s\n", "activations", "train loss", "valid. loss", "to f32", "MB/step",
              "ms/step", "rate");
  double f32_loss = 0, f32_seconds = 0;
  for (const auto& [name, codec] : rows) {
    outcome mean;
    for (std::uint64_t seed = 1; seed <= o.seeds; ++seed) {
      const outcome one = train(o, text, codec, seed);
      const auto part = 1.0 / static_cast<double>(o.seeds);
      mean.training += one.training * part;
      mean.validation += one.validation * part;
      mean.step_seconds += one.step_seconds * part;
      mean.megabytes += one.megabytes * part;
    }
    if (f32_seconds == 0) f32_loss = mean.training, f32_seconds = mean.step_seconds;
    std::printf("%-24s %12.4f %12.4f %+9.2f%% %10.3f %9.1f %8.2fx\n", name, mean.training, mean.validation,
                100 * (mean.training / f32_loss - 1), mean.megabytes, 1000 * mean.step_seconds,
                f32_seconds / mean.step_seconds);
    std::fflush(stdout);
  }
}
