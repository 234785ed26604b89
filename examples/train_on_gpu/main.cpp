// SPDX-License-Identifier: Apache-2.0
// Two peers train a GPT on a text over TCP with DiLoCo, each on its GPU, or on its CPU where it has none: `train_on_gpu
// TEXT`, then, elsewhere, `train_on_gpu TEXT HOST:29500`. `--cpu` leaves the GPU alone. After each round both have the same
// parameters, to the bit.
#include <causeway/causeway.hpp>

#include <cstdio>
#include <cstring>
#include <memory>
#include <thread>
#include <utility>

using namespace causeway;

result<std::shared_ptr<cuda::engine>> open_device();  // device.cu

namespace {

constexpr int steps = 300, context = 128;

template <class Model, class Inner>
result<void> train(result<Model> model, Inner inner, net::any_transport transport, data::batcher batches) {
  if (!model) return model.error();
  std::printf("training on %s\n", model->backend().describe().c_str());
  auto trainer = make_trainer(std::move(*model), {.transport = std::move(transport)},
                              {.learning_rate = optim::warmup_cosine{2e-3F, 20, steps}},
                              comm::periodic<>{{.local_steps = 20}}, std::move(inner));
  CAUSEWAY_TRY(trainer.start());
  for (int i = 0; i < steps; ++i) {
    CAUSEWAY_ASSIGN(const step_report step,
                    trainer.step(batches.next(trainer.context().self(), trainer.context().peers())));
    if (step.committed_round) std::printf("step %d  loss %.3f\n", i + 1, step.loss);
  }
  return trainer.finish();
}

result<std::shared_ptr<cuda::engine>> device_or(bool cpu) {
  if (cpu) return fail(errc::unsupported, "--cpu", "as asked for");
  return open_device();
}

result<net::membership> meet(const char* first_peer) {
  CAUSEWAY_ASSIGN(const auto address, net::parse_endpoint(first_peer == nullptr ? "127.0.0.1:29500" : first_peer));
  if (first_peer != nullptr) return net::join(address, {});
  CAUSEWAY_ASSIGN(auto listener, net::open_listener(address));
  return net::host(std::move(listener), 2, {}, {.run_id = 1});
}

result<void> run(const char* text_file, const char* first_peer, bool cpu) {
  CAUSEWAY_ASSIGN(const auto text, data::load_text(text_file));
  data::byte_tokenizer bytes;
  auto batches = data::batcher::make(data::tokenize(bytes, text), {.context_length = context}, 16);
  if (!batches) return batches.error();
  const auto device = device_or(cpu);
  if (!device) std::printf("no GPU: %s\n", device.error().text().c_str());

  CAUSEWAY_ASSIGN(net::membership peer, meet(first_peer));
  net::any_transport transport{std::move(peer.transport)};

  const nn::gpt_options options{.layers = 4, .heads = 4, .width = 256, .context = context, .vocabulary = 256};
  if (!device) {
    const unsigned threads = std::thread::hardware_concurrency();
    return train(nn::gpt::create(options, kernels::cpu_backend{threads}), optim::adamw{}, std::move(transport),
                 std::move(*batches));
  }
  return train(nn::basic_gpt<cuda::backend>::create(options, cuda::backend{*device}), cuda::adamw{*device},
               std::move(transport), std::move(*batches));
}

}  // namespace

int main(int argc, char** argv) {
  const bool cpu = argc > 2 && std::strcmp(argv[argc - 1], "--cpu") == 0;
  if (cpu) --argc;
  if (argc < 2) return std::puts("usage: train_on_gpu TEXT [HOST:PORT of the first peer] [--cpu]"), 2;
  const auto done = run(argv[1], argc > 2 ? argv[2] : nullptr, cpu);
  return done ? 0 : (std::puts(done.error().text().c_str()), 1);
}
