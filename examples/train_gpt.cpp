// SPDX-License-Identifier: Apache-2.0
// Two peers train a GPT on a text over TCP with DiLoCo. First `train_gpt TEXT`, then, elsewhere, `train_gpt TEXT
// HOST:29500`.
#include <causeway/causeway.hpp>

#include <cstdio>

// [program]
int main(int argc, char** argv) {
  using namespace causeway;
  if (argc < 2) return std::puts("usage: train_gpt TEXT [HOST:PORT of the first peer]"), 2;
  const auto text = data::load_text(argv[1]);
  if (!text) return std::puts(text.error().text().c_str()), 1;

  auto peer = argc > 2 ? net::join(*net::parse_endpoint(argv[2]), {})
                       : net::host(*net::open_listener({"127.0.0.1", 29500}), 2, {}, {.run_id = 1});
  if (!peer) return std::puts(peer.error().text().c_str()), 1;

  data::byte_tokenizer bytes;
  auto batches = data::batcher::make(data::tokenize(bytes, *text), {.context_length = 128}, 16);
  auto model = nn::gpt::create({.layers = 4, .heads = 4, .width = 128, .context = 128, .vocabulary = 256});
  auto trainer =
      make_trainer(std::move(*model), {.transport = net::any_transport{std::move(peer->transport)}},
                   {.learning_rate = optim::warmup_cosine{2e-3F, 20, 300}}, comm::periodic<>{{.local_steps = 20}});
  auto outcome = trainer.start();
  for (int i = 0; outcome && i < 300; ++i) {
    const auto step = trainer.step(batches->next(trainer.context().self(), trainer.context().peers()));
    if (!step) outcome = step.error();
    if (step && step->committed_round) std::printf("step %d  loss %.3f\n", i + 1, step->loss);
  }
  return outcome && trainer.finish() ? 0 : std::puts(outcome.error().text().c_str());
}
// [program]
