// SPDX-License-Identifier: Apache-2.0
// A model of libtorch, trained by two peers with DiLoCo: libtorch computes, Causeway steps and exchanges. The peers are
// threads here; with a transport of causeway/tcp.hpp they are machines, as in 02_two_peers.cpp.
// usage: train_libtorch [STEPS]
#include <causeway/train.hpp>

#include <torch/torch.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

// Which byte comes next: an embedding, a recurrent layer, a linear one.
struct next_byte : torch::nn::Module {
  next_byte() {
    embed = register_module("embed", torch::nn::Embedding(256, 32));
    recur = register_module("recur", torch::nn::GRU(torch::nn::GRUOptions(32, 64).batch_first(true)));
    head = register_module("head", torch::nn::Linear(64, 256));
  }
  torch::Tensor forward(const torch::Tensor& bytes) { return head(std::get<0>(recur(embed(bytes)))); }

  torch::nn::Embedding embed{nullptr};
  torch::nn::GRU recur{nullptr};
  torch::nn::Linear head{nullptr};
};

// All parameters, and all gradients, in one buffer each: every tensor of the module becomes a view into them.
struct flat_module {
  explicit flat_module(torch::nn::Module& module) {
    std::int64_t count = 0, at = 0;
    for (const auto& p : module.parameters()) count += p.numel();
    values = torch::empty(count);
    gradients = torch::zeros(count);
    for (auto& named : module.named_parameters()) {
      torch::Tensor& p = named.value();
      const auto view = [&](const torch::Tensor& flat) { return flat.narrow(0, at, p.numel()).view(p.sizes()); };
      const auto own = view(values);
      own.copy_(p.detach());
      p.set_data(own);
      p.mutable_grad() = view(gradients);
      const bool is_table = named.key().rfind("embed", 0) == 0 || named.key().rfind("head.weight", 0) == 0;
      const auto kind = p.dim() < 2 ? causeway::parameter_kind::vector
                        : is_table  ? causeway::parameter_kind::embedding
                                    : causeway::parameter_kind::matrix;
      pieces.push_back({named.key(), kind, p.dim() < 2 ? 1 : p.size(0), p.numel() / (p.dim() < 2 ? 1 : p.size(0))});
      at += p.numel();
    }
  }
  static std::span<float> span(torch::Tensor& flat) {
    return {flat.data_ptr<float>(), static_cast<std::size_t>(flat.numel())};
  }

  torch::Tensor values, gradients;
  std::vector<causeway::flat_piece> pieces;
};

torch::Tensor loss_of(next_byte& module, std::span<const std::int32_t> in, std::span<const std::int32_t> out,
                      std::int64_t rows) {
  const auto tensor = [&](std::span<const std::int32_t> tokens) {
    return torch::tensor(at::ArrayRef<std::int32_t>{tokens.data(), tokens.size()}, torch::kInt64).view({rows, -1});
  };
  const auto scores = module.forward(tensor(in));
  return torch::nn::functional::cross_entropy(scores.view({-1, 256}), tensor(out).view({-1}));
}

causeway::result<double> train(causeway::net::any_transport transport, next_byte& module, int steps) {
  std::string text;
  for (int i = 0; i < 500; ++i) text += "the quick brown fox jumps over the lazy dog, ";
  causeway::data::byte_tokenizer bytes;
  CAUSEWAY_ASSIGN(auto batches,
                  causeway::data::batcher::make(causeway::data::tokenize(bytes, text), {.context_length = 32}, 16));

  flat_module flat{module};
  const auto step = [&](auto inputs, auto targets, std::int64_t sequences) {
    flat.gradients.zero_();
    const auto loss = loss_of(module, inputs, targets, sequences);
    loss.backward();  // adds to the views, and so to the flat buffer
    return loss.template item<double>();
  };
  causeway::flat_model model{
      flat_module::span(flat.values), flat_module::span(flat.gradients), step, {.pieces = flat.pieces}};
  auto trainer = causeway::make_trainer(std::move(model), {.transport = std::move(transport)},
                                        {.learning_rate = causeway::optim::constant{1e-2F}},
                                        causeway::comm::periodic<>{{.local_steps = 10}});
  CAUSEWAY_TRY(trainer.start());
  double loss = 0;
  for (int i = 0; i < steps; ++i) {
    CAUSEWAY_ASSIGN(const auto report, trainer.step(batches.next(trainer.context().self(), trainer.context().peers())));
    loss = report.loss;
  }
  CAUSEWAY_TRY(trainer.finish());
  trainer.model().write_back();  // what was trained is in the module
  return loss;
}

int main(int argc, char** argv) {
  const int steps = argc > 1 ? std::atoi(argv[1]) : 60;
  causeway::net::memory_network network{2};
  std::vector<next_byte> modules(2);
  std::vector<causeway::result<double>> losses(2, 0.0);
  std::vector<std::thread> peers;
  torch::set_num_threads(1);
  for (std::size_t i = 0; i < 2; ++i) {
    torch::manual_seed(1);  // equal starts
    modules[i] = next_byte{};
    peers.emplace_back([&, i] {
      losses[i] = train(causeway::net::any_transport{network.transport(static_cast<std::uint32_t>(i))}, modules[i], steps);
    });
  }
  for (auto& p : peers) p.join();
  for (const auto& loss : losses) {
    if (!loss) return std::puts(loss.error().text().c_str()), 1;
  }
  const bool same = torch::equal(modules[0].head->weight, modules[1].head->weight);
  std::printf("loss %.3f and %.3f, log 256 is 5.545; the peers' weights are %s\n", *losses[0], *losses[1],
              same ? "equal" : "different");
  return same && *losses[0] < 2 ? 0 : 1;
}
