// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PARALLEL_EXPERTS_EXPERT_GPT_HPP
#define CAUSEWAY_PARALLEL_EXPERTS_EXPERT_GPT_HPP

// GPT-2 with a mixture of remote experts in place of every feed-forward part (after Learning@home: Ryabinin and Gusev,
// NeurIPS 2020, whose experts are whole layers; here attention stays with the trainer, so that rows travel by themselves).
// Embedding, attention, norms and gates are parameters of this model, for a trainer and any policy; experts are their
// hosts'.

#include <causeway/autograd/linear.hpp>
#include <causeway/autograd/ops.hpp>
#include <causeway/autograd/tape.hpp>
#include <causeway/config/config.hpp>
#include <causeway/core/hash.hpp>
#include <causeway/core/result.hpp>
#include <causeway/kernels/backend.hpp>
#include <causeway/kernels/elementwise.hpp>
#include <causeway/nn/declaration.hpp>
#include <causeway/nn/micro_batch.hpp>
#include <causeway/nn/model_part.hpp>
#include <causeway/parallel/experts/expert_client.hpp>
#include <causeway/parallel/experts/expert_layer.hpp>
#include <causeway/parallel/remote_pass.hpp>
#include <causeway/stage/product_key_gate.hpp>
#include <causeway/tensor/buffer_pool.hpp>
#include <causeway/tensor/parameters.hpp>
#include <causeway/tensor/tensor.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace parallel {

/// Layers and width are the mixture's.
struct expert_gpt_options {
  std::int64_t heads = 4;
  std::int64_t context = 256;
  std::int64_t vocabulary = 256;
  float epsilon = 1e-5F;
  stage::product_key_options gate{};
};

/// Models train's Model, f32, no dropout, output layer tied to the token table. One thread at a time. A step waits for the
/// experts of one block after another, there and back: 2 · layers round trips. A template as nn::language_model is.
template <class BackendType = kernels::cpu_backend>
class basic_expert_gpt {
 public:
  using backend_type = BackendType;

  /// `client` outlives the model. errc::invalid_argument for sizes that cannot work.
  static result<basic_expert_gpt> create(const expert_gpt_options& options, expert_client& client,
                                         backend_type backend = backend_type{}) {
    const expert_mixture_options& m = client.mixture();
    if (options.heads < 1 || m.width % options.heads != 0 || options.context < 1 || options.vocabulary < 1) {
      return fail(errc::invalid_argument, "expert_gpt",
                  "width " + std::to_string(m.width) + " does not divide by " + std::to_string(options.heads) +
                      " heads, or context or vocabulary is empty");
    }
    std::vector<expert_layer> layers;
    for (std::uint32_t l = 0; l < m.layers; ++l) {
      CAUSEWAY_ASSIGN(expert_layer one, expert_layer::create(client, options.gate, l));
      layers.push_back(std::move(one));
    }
    basic_expert_gpt model{options, m, std::move(layers), std::move(backend)};
    model.initialize(0);
    return result<basic_expert_gpt>{std::move(model)};  // nvcc does not move by itself
  }

  [[nodiscard]] parameter_store& parameters() noexcept { return engine_->store; }
  [[nodiscard]] backend_type& backend() noexcept { return engine_->backend; }
  /// Of the gate that experts of block l are chosen by, and what was lost there.
  [[nodiscard]] expert_layer& layer(std::size_t l) noexcept { return engine_->layers[l]; }

  [[nodiscard]] std::uint64_t config_hash() const {
    hasher h;
    h.add_value(hash_text("expert_gpt")).add_value(engine_->options.heads).add_value(engine_->options.epsilon);
    return h.add_value(engine_->store.layout_hash()).finish();
  }

  /// Fresh parameters, a function of the seed.
  void initialize(std::uint64_t seed) {
    nn::fill_initial(engine_->backend.pool(), engine_->store, engine_->initial, seed);
    engine_->store.touch();
  }

  /// As nn::language_model; errc::timeout where no expert of a block answered. Experts that were asked before have moved.
  result<double> forward_backward(std::span<const std::int32_t> inputs, std::span<const std::int32_t> targets,
                                  std::int64_t sequences, float scale, std::uint64_t) {
    return run({inputs, targets, sequences, scale, 0}, true);
  }
  result<double> evaluate(std::span<const std::int32_t> inputs, std::span<const std::int32_t> targets,
                          std::int64_t sequences) {
    return run({inputs, targets, sequences, 0.0F, 0}, false);
  }

 private:
  using tape_type = autograd::tape<backend_type>;

  // A linear map or a norm takes two segments: weight, bias.
  struct block {
    std::size_t norm1 = 0, qkv = 0, projection = 0, norm2 = 0, gate = 0;
  };

  // Everything, in one place that stays when the model moves: the tape points into it.
  struct engine {
    engine(const expert_gpt_options& o, const expert_mixture_options& m, std::vector<expert_layer> given, backend_type b)
        : options{o}, width{m.width}, layers{std::move(given)}, backend{std::move(b)} {
      nn::declaration d{store, nn::model_part{}, static_cast<std::int64_t>(layers.size())};
      tokens = d.token_table("wte.weight", o.vocabulary, width, true);
      positions = d.table("wpe.weight", o.context, width);
      for (std::size_t l = 0; l < layers.size(); ++l) blocks.push_back(declare(d, l));
      d.in_block(static_cast<std::int64_t>(layers.size()));
      final_norm = declare_norm(d, "ln_f");
      initial = std::move(d).take_initial();
      store.allocate();
    }
    [[nodiscard]] block declare(nn::declaration& d, std::size_t l) {
      const std::string p = "h." + std::to_string(l) + ".";
      const float residual = nn::residual_deviation(static_cast<std::int64_t>(layers.size()));
      const auto scores = static_cast<std::int64_t>(layers[l].gate().weights().size()) / width;
      d.in_block(static_cast<std::int64_t>(l));
      block b;
      b.norm1 = declare_norm(d, p + "ln_1");
      b.qkv = d.matrix(p + "attn.c_attn.weight", 3 * width, width);
      d.vector(p + "attn.c_attn.bias", 3 * width, 0.0F);
      b.projection = d.matrix(p + "attn.c_proj.weight", width, width, residual);
      d.vector(p + "attn.c_proj.bias", width, 0.0F);
      b.norm2 = declare_norm(d, p + "ln_2");
      b.gate = d.matrix(p + "gate.weight", scores, width, 1.0F / std::sqrt(static_cast<float>(width)));
      return b;
    }
    std::size_t declare_norm(nn::declaration& d, const std::string& prefix) const {
      const std::size_t gain = d.vector(prefix + ".weight", width, 1.0F);
      d.vector(prefix + ".bias", width, 0.0F);
      return gain;
    }
    [[nodiscard]] autograd::parameter at(std::size_t segment) {
      const parameter_segment& s = store.segments()[segment];
      return {store.value(segment), nullptr, store.gradient(segment), s.rows, s.columns};
    }

    expert_gpt_options options;
    std::int64_t width;
    std::vector<expert_layer> layers;
    backend_type backend;
    parameter_store store;
    std::vector<nn::initial_distribution> initial;
    std::vector<block> blocks;
    std::size_t tokens = 0, positions = 0, final_norm = 0;
    buffer_pool memory;
    tape_type tape{backend, memory};
    std::optional<error> failed;  // an expert layer's, in the pass under way
  };

  basic_expert_gpt(const expert_gpt_options& o, const expert_mixture_options& m, std::vector<expert_layer> layers,
                   backend_type backend)
      : engine_{std::make_unique<engine>(o, m, std::move(layers), std::move(backend))} {}

  result<double> run(const nn::micro_batch& b, bool training) {
    engine& e = *engine_;
    const nn::token_limits limits{"expert_gpt", e.options.context, e.options.vocabulary};
    return run_remote_pass(limits, b, e.tape, e.failed, training, [&] { return pass(b); });
  }

  double pass(const nn::micro_batch& b) {
    engine& e = *engine_;
    tape_type& t = e.tape;
    const std::int64_t T = static_cast<std::int64_t>(b.inputs.size()) / b.batch;
    const autograd::head_layout layout{b.batch, T, e.options.heads, e.options.heads, e.width / e.options.heads};
    auto x = autograd::embedding(t, b.inputs, e.at(e.tokens), e.at(e.positions), b.batch);
    for (std::size_t l = 0; l < e.blocks.size() && !e.failed; ++l) {
      const block& s = e.blocks[l];
      const auto qkv = autograd::linear(t, norm(s.norm1, x), e.at(s.qkv), e.at(s.qkv + 1));
      x = autograd::linear_to_residual(t, autograd::attention(t, qkv, layout), e.at(s.projection), e.at(s.projection + 1),
                                       x);
      x = autograd::add(t, x, mixture(l, norm(s.norm2, x)));
    }
    if (e.failed) return 0;
    return autograd::cross_entropy(t, norm(e.final_norm, x), e.at(e.tokens), b.targets, b.grad_scale);
  }

  [[nodiscard]] autograd::variable norm(std::size_t segment, const autograd::variable& x) {
    engine& e = *engine_;
    return autograd::layer_norm(e.tape, x, e.at(segment), e.at(segment + 1), e.options.epsilon);
  }

  /// What the experts of block l make of x. Their failure is kept: a tape cannot tell of it.
  [[nodiscard]] autograd::variable mixture(std::size_t l, const autograd::variable& x) {
    engine& e = *engine_;
    tensor y = e.tape.make(dtype::f32, x.value.shape());
    stage::product_key_gate& gate = e.layers[l].gate();
    std::copy_n(e.store.value(e.blocks[l].gate), gate.weights().size(), gate.weights().begin());
    auto asked = e.layers[l].forward(e.backend.pool(), x.value.span<float>(), y.span<float>());
    if (!asked) {
      e.failed = asked.error();
      return {std::move(y)};
    }
    auto kept = std::make_unique<expert_pass>(std::move(*asked));
    return e.tape.result(std::move(y), [&e, l, x, kept = std::move(kept)](tape_type& on, const tensor& dy) {
      tensor dx = on.make(dtype::f32, dy.shape());
      stage::product_key_gate& scores = e.layers[l].gate();
      std::fill(scores.gradients().begin(), scores.gradients().end(), 0.0F);
      const auto done = e.layers[l].backward(on.backend().pool(), *kept, dy.span<float>(), dx.span<float>());
      if (!done) e.failed = done.error();
      float* const gradient = e.store.gradient(e.blocks[l].gate);
      kernels::add(on.backend().pool(), gradient, gradient, scores.gradients().data(), std::ssize(scores.gradients()));
      on.contribute(x.slot, std::move(dx));
    });
  }

  std::unique_ptr<engine> engine_;
};
using expert_gpt = basic_expert_gpt<>;

}}}  // namespace causeway::CAUSEWAY_ABI::parallel

#endif  // CAUSEWAY_PARALLEL_EXPERTS_EXPERT_GPT_HPP
