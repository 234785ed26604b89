// SPDX-License-Identifier: Apache-2.0
// ctest: 60
// Four peers in one process train the same model under several policies: what each costs in bytes, and what it gives.
// usage: policies [STEPS]
#include <causeway/comm/every_step.hpp>
#include <causeway/comm/periodic.hpp>
#include <causeway/compress/block_int8.hpp>
#include <causeway/compress/fp16.hpp>
#include <causeway/data/batcher.hpp>
#include <causeway/data/tokenizer.hpp>
#include <causeway/net/memory_transport.hpp>
#include <causeway/nn/gpt.hpp>
#include <causeway/optim/sgd.hpp>
#include <causeway/train/trainer.hpp>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "random_pair.hpp"
#include "upper_half.hpp"

namespace {

constexpr std::uint32_t peers = 4;

// Something to learn: numbers, written out and counted up.
std::string text() {
  static constexpr const char* digits[] = {"nought", "one", "two",   "three", "four",
                                           "five",   "six", "seven", "eight", "nine"};
  std::string all;
  for (int i = 0; i < 4000; ++i) {
    for (const char c : std::to_string(i)) all += std::string{digits[c - '0']} + " ";
    all += "then\n";
  }
  return all;
}

struct ending {
  double loss = 0;
  std::uint64_t bytes = 0;
};

template <class Policy>
ending train_peer(Policy policy, causeway::environment env, const causeway::data::token_stream& tokens, int steps) {
  auto model = causeway::nn::gpt::create({.layers = 2, .heads = 2, .width = 32, .context = 32, .vocabulary = 256});
  auto batches = causeway::data::batcher::make(tokens, {.context_length = 32}, 4 * peers);
  auto trainer = causeway::make_trainer(std::move(*model), std::move(env),
                                        {.learning_rate = causeway::optim::constant{5e-3F}}, std::move(policy));
  auto& ctx = trainer.context();
  if (!trainer.start()) std::abort();
  ending end;
  for (int i = 0; i < steps; ++i) {
    const auto report = trainer.step(batches->next(ctx.self(), peers));
    if (!report) std::abort();
    end.loss = report->loss;
  }
  if (!trainer.finish()) std::abort();
  end.bytes = ctx.transport().stats().bytes_sent;
  return end;
}

// `make` gives every peer a policy of its own: policies have state.
template <class MakePolicy>
void compare(const char* name, MakePolicy make, int steps) {
  causeway::data::byte_tokenizer bytes;
  const auto tokens = causeway::data::tokenize(bytes, text());
  causeway::net::memory_network network{peers};
  std::vector<ending> ends(peers);
  std::vector<std::thread> threads;
  for (std::uint32_t peer = 0; peer < peers; ++peer) {
    threads.emplace_back([&, peer] {
      causeway::environment env{.transport = causeway::net::any_transport{network.transport(peer)}};
      ends[peer] = train_peer(make(), std::move(env), tokens, steps);
    });
  }
  for (auto& t : threads) t.join();
  std::printf("%-34s loss %.3f   %8.3f MB sent by a peer\n", name, ends[0].loss, static_cast<double>(ends[0].bytes) / 1e6);
}

}  // namespace

int main(int argc, char** argv) {
  using namespace causeway;
  const int steps = argc > 1 ? std::atoi(argv[1]) : 200;
  compare(
      "every step", [] { return comm::every_step<>{}; }, steps);
  compare(
      "every step, fp16", [] { return comm::every_step<compress::fp16>{}; }, steps);
  compare(
      "local SGD, 10 steps", [] { return comm::periodic<optim::sgd>{{.local_steps = 10, .outer_learning_rate = 1.0F}}; },
      steps);
  compare(
      "DiLoCo, 10 steps", [] { return comm::periodic<>{{.local_steps = 10}}; }, steps);
  compare(
      "DiLoCo, 10 steps, int8", [] { return comm::periodic<optim::nesterov, compress::block_int8>{{.local_steps = 10}}; },
      steps);
  compare(
      "DiLoCo, 10 steps, our own codec", [] { return comm::periodic<optim::nesterov, upper_half>{{.local_steps = 10}}; },
      steps);
  compare(
      "random pairs, our own policy", [] { return random_pair{10}; }, steps);
}
