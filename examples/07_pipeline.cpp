// SPDX-License-Identifier: Apache-2.0
// ctest: 20
// A model that no peer holds whole: two peers have half of the blocks each, and batches go through in micro-batches. The
// losses have the bits of the whole model in one process. The peers are threads; with causeway/tcp.hpp they are machines.
// usage: 07_pipeline [STEPS]
#include <causeway/comm/every_step.hpp>
#include <causeway/parallel/data_parallel.hpp>
#include <causeway/parallel/pipeline.hpp>

#include <cstdlib>

#include "several_peers.hpp"

using namespace causeway;

constexpr nn::gpt_options model_shape{.layers = 4, .heads = 2, .width = 32, .context = 32, .vocabulary = 256, .tie = false};
constexpr parallel::pipeline_options pipes{.micro_batches = 4, .ranks = 2};

template <class Parallel>
result<std::vector<double>> train(nn::gpt model, environment env, Parallel parallelism, int steps) {
  data::byte_tokenizer bytes;
  CAUSEWAY_ASSIGN(auto batches, data::batcher::make(data::tokenize(bytes, counted_text()), {.context_length = 32}, 8));
  // Without clipping: the norm of two halves is rounded otherwise than that of the whole.
  auto trainer = make_trainer(std::move(model), std::move(env), {.learning_rate = optim::constant{3e-3F}, .clip_norm = 0},
                              comm::every_step<>{}, std::move(parallelism));
  CAUSEWAY_TRY(trainer.start());
  std::vector<double> losses;
  for (int i = 0; i < steps; ++i) {
    CAUSEWAY_ASSIGN(const auto step, trainer.step(batches.next(0, 1)));  // both ends need the same batch
    losses.push_back(step.loss);
  }
  CAUSEWAY_TRY(trainer.finish());
  return losses;
}

result<std::vector<double>> a_stage(net::memory_network& network, std::uint32_t peer, int steps) {
  CAUSEWAY_ASSIGN(const auto place, parallel::place_in(pipes, peer, 2));
  CAUSEWAY_ASSIGN(auto part, parallel::part_of(pipes, place, model_shape.layers));
  CAUSEWAY_ASSIGN(auto model, nn::gpt::create(model_shape, kernels::cpu_backend{1}, std::move(part)));
  std::printf("peer %u holds %zu parameters\n", peer, model.parameters().values().size());
  environment env{.transport = net::any_transport{network.transport(peer)}};
  return train(std::move(model), std::move(env), parallel::pipeline<>{pipes}, steps);
}

result<bool> compare(int steps) {
  CAUSEWAY_ASSIGN(auto whole, nn::gpt::create(model_shape));
  std::printf("the model has %zu\n", whole.parameters().values().size());
  CAUSEWAY_ASSIGN(const auto expected, train(std::move(whole), {}, parallel::data_parallel{{.micro_batches = 4}}, steps));
  net::memory_network network{2};
  result<std::vector<double>> second = std::vector<double>{};
  std::thread other{[&] { second = a_stage(network, 1, steps); }};
  const auto first = a_stage(network, 0, steps);
  other.join();
  if (!second) return second.error();
  CAUSEWAY_ASSIGN(const auto losses, first);
  std::printf("loss %.6f, in one process %.6f\n", losses.back(), expected.back());
  return losses == expected && losses == *second && losses.back() < losses.front();
}

int main(int argc, char** argv) { return status_of(compare(argc > 1 ? std::atoi(argv[1]) : 20)); }
