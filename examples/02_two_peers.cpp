// SPDX-License-Identifier: Apache-2.0
// Two peers train a GPT on a text over TCP with DiLoCo. First `02_two_peers TEXT`, then, in another terminal, `02_two_peers
// TEXT 127.0.0.1:29500`.
#include <causeway/tcp.hpp>
#include <causeway/train.hpp>

#include <cstdio>

// [program]
using namespace causeway;

result<net::membership> meet(const char* first_peer) {
  if (first_peer != nullptr) {
    CAUSEWAY_ASSIGN(const auto address, net::parse_endpoint(first_peer));
    return net::join(address, {});
  }
  CAUSEWAY_ASSIGN(auto listener, net::open_listener({"127.0.0.1", 29500}));
  return net::host(std::move(listener), 2, {}, {.run_id = 1});
}

result<void> train(const char* text_file, const char* first_peer) {
  CAUSEWAY_ASSIGN(const auto text, data::load_text(text_file));
  CAUSEWAY_ASSIGN(auto peer, meet(first_peer));
  data::byte_tokenizer bytes;
  CAUSEWAY_ASSIGN(auto batches, data::batcher::make(data::tokenize(bytes, text), {.context_length = 128}, 16));
  CAUSEWAY_ASSIGN(auto model, nn::gpt::create({.layers = 4, .heads = 4, .width = 128, .context = 128, .vocabulary = 256}));
  auto trainer =
      make_trainer(std::move(model), {.transport = std::move(peer.transport)},
                   {.learning_rate = optim::warmup_cosine{2e-3F, 20, 300}}, comm::periodic<>{{.local_steps = 20}});
  CAUSEWAY_TRY(trainer.start());
  for (int i = 1; i <= 300; ++i) {
    CAUSEWAY_ASSIGN(const auto step, trainer.step(batches.next(trainer.context().self(), trainer.context().peers())));
    if (step.committed_round) std::printf("step %d  loss %.3f\n", i, step.loss);
  }
  return trainer.finish();
}

int main(int argc, char** argv) {
  if (argc < 2) return std::puts("usage: 02_two_peers TEXT [HOST:PORT of the first peer]"), 2;
  const auto outcome = train(argv[1], argc > 2 ? argv[2] : nullptr);
  return outcome ? 0 : (std::puts(outcome.error().text().c_str()), 1);
}
// [program]
