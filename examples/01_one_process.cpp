// SPDX-License-Identifier: Apache-2.0
// ctest: 60
// Trains a GPT in one process: no peers, no network, nothing but the headers. `01_one_process [STEPS] [TEXT FILE]`. Given a
// transport in the second argument of make_trainer, and a communication policy, the same lines train with others.
#include <causeway/train.hpp>

#include <cstdio>
#include <cstdlib>
#include <string>

// [program]
using namespace causeway;

result<std::string> text_from(const char* path) {
  if (path != nullptr) return data::load_text(path);
  std::string text;
  for (int i = 0; i < 500; ++i) text += "the quick brown fox jumps over the lazy dog, ";
  return text;
}

result<double> train(int steps, const char* path) {
  CAUSEWAY_ASSIGN(const auto text, text_from(path));
  data::byte_tokenizer bytes;
  CAUSEWAY_ASSIGN(auto batches, data::batcher::make(data::tokenize(bytes, text), {.context_length = 64}, 8));
  CAUSEWAY_ASSIGN(auto model, nn::gpt::create({.layers = 2, .heads = 4, .width = 64, .context = 64, .vocabulary = 256}));
  auto trainer =
      make_trainer(std::move(model), {}, {.learning_rate = optim::warmup_cosine{3e-3F, 10, 300}}, comm::every_step<>{});
  CAUSEWAY_TRY(trainer.start());
  double loss = 0;
  for (int i = 1; i <= steps; ++i) {
    CAUSEWAY_ASSIGN(const auto step, trainer.step(batches.next(0, 1)));  // the samples of peer 0 of 1
    loss = step.loss;
    if (i % 20 == 0) std::printf("step %d  loss %.3f\n", i, loss);
  }
  CAUSEWAY_TRY(trainer.finish());
  return loss;
}
// [program]

int main(int argc, char** argv) {
  const auto loss = train(argc > 1 ? std::atoi(argv[1]) : 300, argc > 2 ? argv[2] : nullptr);
  if (!loss) return std::puts(loss.error().text().c_str()), 1;
  return *loss < 3 ? 0 : 1;  // log 256 is 5.5
}
