// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_EXAMPLES_SEVERAL_PEERS_HPP
#define CAUSEWAY_EXAMPLES_SEVERAL_PEERS_HPP

// What several examples share: a text, and four peers as threads of one process that train a small GPT on it.

#include <causeway/data/batcher.hpp>
#include <causeway/data/tokenizer.hpp>
#include <causeway/net/memory_transport.hpp>
#include <causeway/nn/gpt.hpp>
#include <causeway/train/trainer.hpp>

#include <cstdint>
#include <cstdio>
#include <string>
#include <thread>
#include <utility>
#include <vector>

constexpr std::uint32_t peer_count = 4;

/// Something to learn: numbers, written out and counted up.
inline std::string counted_text(int numbers = 4000) {
  static constexpr const char* digits[] = {"nought", "one", "two",   "three", "four",
                                           "five",   "six", "seven", "eight", "nine"};
  std::string all;
  for (int i = 0; i < numbers; ++i) {
    for (const char c : std::to_string(i)) all += std::string{digits[c - '0']} + " ";
    all += "then\n";
  }
  return all;
}

struct ending {
  double loss = 0;
  std::uint64_t bytes = 0;  ///< sent by the peer
};

template <class Policy>
causeway::result<ending> train_peer(Policy policy, causeway::environment env, const causeway::data::token_stream& tokens,
                                    int steps) {
  using namespace causeway;
  CAUSEWAY_ASSIGN(auto model, nn::gpt::create({.layers = 2, .heads = 2, .width = 32, .context = 32, .vocabulary = 256}));
  CAUSEWAY_ASSIGN(auto batches, data::batcher::make(tokens, {.context_length = 32}, 4 * peer_count));
  auto trainer =
      make_trainer(std::move(model), std::move(env), {.learning_rate = optim::constant{5e-3F}}, std::move(policy));
  CAUSEWAY_TRY(trainer.start());
  ending end;
  for (int i = 0; i < steps; ++i) {
    CAUSEWAY_ASSIGN(const auto report, trainer.step(batches.next(trainer.context().self(), peer_count)));
    end.loss = report.loss;
  }
  CAUSEWAY_TRY(trainer.finish());
  end.bytes = trainer.context().transport().stats().bytes_sent;
  return end;
}

/// What the first peer ends with, printed in a line. `make` gives each peer a policy of its own: policies have state.
template <class MakePolicy>
causeway::result<ending> train_four(const char* name, MakePolicy make, int steps) {
  using namespace causeway;
  data::byte_tokenizer bytes;
  const auto tokens = data::tokenize(bytes, counted_text());
  net::memory_network network{peer_count};
  std::vector<result<ending>> ends(peer_count, ending{});
  std::vector<std::thread> threads;
  for (std::uint32_t peer = 0; peer < peer_count; ++peer) {
    threads.emplace_back([&, peer] {
      environment env{.transport = net::any_transport{network.transport(peer)}};
      ends[peer] = train_peer(make(), std::move(env), tokens, steps);
    });
  }
  for (auto& t : threads) t.join();
  for (const auto& end : ends) {
    if (!end) return end.error();
  }
  std::printf("%-34s loss %.3f   %8.3f MB sent by a peer\n", name, ends[0]->loss,
              static_cast<double>(ends[0]->bytes) / 1e6);
  return ends[0];
}

/// For `main`: 0, or 1 and what is wrong.
inline int status_of(const causeway::result<bool>& as_expected) {
  if (!as_expected) return std::puts(as_expected.error().text().c_str()), 1;
  return *as_expected ? 0 : (std::puts("not what this example is to show"), 1);
}

#endif  // CAUSEWAY_EXAMPLES_SEVERAL_PEERS_HPP
