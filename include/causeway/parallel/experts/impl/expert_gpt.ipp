// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PARALLEL_EXPERTS_IMPL_EXPERT_GPT_IPP
#define CAUSEWAY_PARALLEL_EXPERTS_IMPL_EXPERT_GPT_IPP

// Bodies of parallel/experts/expert_gpt.hpp.

#include <causeway/parallel/experts/expert_gpt.hpp>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace parallel {

CAUSEWAY_DECL expert_gpt::expert_gpt(const expert_gpt_options& o, const expert_mixture_options& m,
                                     std::vector<expert_layer> layers, backend_type backend)
    : engine_{std::make_unique<engine>(o, m, std::move(layers), std::move(backend))} {}

CAUSEWAY_DECL result<expert_gpt> expert_gpt::create(const expert_gpt_options& options, expert_client& client,
                                                    backend_type backend) {
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
  expert_gpt model{options, m, std::move(layers), std::move(backend)};
  model.initialize(0);
  return result<expert_gpt>{std::move(model)};  // nvcc does not move by itself
}

CAUSEWAY_DECL std::uint64_t expert_gpt::config_hash() const {
  hasher h;
  h.add_value(hash_text("expert_gpt")).add_value(engine_->options.heads).add_value(engine_->options.epsilon);
  return h.add_value(engine_->store.layout_hash()).finish();
}

CAUSEWAY_DECL void expert_gpt::initialize(std::uint64_t seed) {
  nn::fill_initial(engine_->backend.pool(), engine_->store, engine_->initial, seed);
  engine_->store.touch();
}

CAUSEWAY_DECL result<double> expert_gpt::forward_backward(std::span<const std::int32_t> inputs,
                                                          std::span<const std::int32_t> targets, std::int64_t sequences,
                                                          float scale, std::uint64_t) {
  return run({inputs, targets, sequences, scale, 0}, true);
}

CAUSEWAY_DECL result<double> expert_gpt::evaluate(std::span<const std::int32_t> inputs,
                                                  std::span<const std::int32_t> targets, std::int64_t sequences) {
  return run({inputs, targets, sequences, 0.0F, 0}, false);
}

CAUSEWAY_DECL expert_gpt::engine::engine(const expert_gpt_options& o, const expert_mixture_options& m,
                                         std::vector<expert_layer> given, backend_type b)
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

CAUSEWAY_DECL auto expert_gpt::engine::declare(nn::declaration& d, std::size_t l) -> block {
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

CAUSEWAY_DECL std::size_t expert_gpt::engine::declare_norm(nn::declaration& d, const std::string& prefix) const {
  const std::size_t gain = d.vector(prefix + ".weight", width, 1.0F);
  d.vector(prefix + ".bias", width, 0.0F);
  return gain;
}

CAUSEWAY_DECL autograd::parameter expert_gpt::engine::at(std::size_t segment) {
  const parameter_segment& s = store.segments()[segment];
  return {store.value(segment), nullptr, store.gradient(segment), s.rows, s.columns};
}

CAUSEWAY_DECL result<double> expert_gpt::run(const nn::micro_batch& b, bool training) {
  engine& e = *engine_;
  const nn::token_limits limits{"expert_gpt", e.options.context, e.options.vocabulary};
  return run_remote_pass(limits, b, e.tape, e.failed, training, [&] { return pass(b); });
}

CAUSEWAY_DECL double expert_gpt::pass(const nn::micro_batch& b) {
  engine& e = *engine_;
  tape_type& t = e.tape;
  const std::int64_t T = static_cast<std::int64_t>(b.inputs.size()) / b.batch;
  const autograd::head_layout layout{b.batch, T, e.options.heads, e.options.heads, e.width / e.options.heads};
  auto x = autograd::embedding(t, b.inputs, e.at(e.tokens), e.at(e.positions), b.batch);
  for (std::size_t l = 0; l < e.blocks.size() && !e.failed; ++l) {
    const block& s = e.blocks[l];
    const auto qkv = autograd::linear(t, norm(s.norm1, x), e.at(s.qkv), e.at(s.qkv + 1));
    x = autograd::linear_to_residual(t, autograd::attention(t, qkv, layout), e.at(s.projection), e.at(s.projection + 1), x);
    x = autograd::add(t, x, mixture(l, norm(s.norm2, x)));
  }
  if (e.failed) return 0;
  return autograd::cross_entropy(t, norm(e.final_norm, x), e.at(e.tokens), b.targets, b.grad_scale);
}

CAUSEWAY_DECL autograd::variable expert_gpt::norm(std::size_t segment, const autograd::variable& x) {
  engine& e = *engine_;
  return autograd::layer_norm(e.tape, x, e.at(segment), e.at(segment + 1), e.options.epsilon);
}

CAUSEWAY_DECL autograd::variable expert_gpt::mixture(std::size_t l, const autograd::variable& x) {
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

}}}  // namespace causeway::CAUSEWAY_ABI::parallel

#endif  // CAUSEWAY_PARALLEL_EXPERTS_IMPL_EXPERT_GPT_IPP
