// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_NN_IMPL_GPT_IPP
#define CAUSEWAY_NN_IMPL_GPT_IPP

#include <causeway/nn/gpt.hpp>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace nn {

CAUSEWAY_DECL result<void> gpt_family::validate(const gpt_options& o) {
  CAUSEWAY_TRY(detail::check_sizes(name, {{"layers", o.layers, 1 << 16},
                                          {"heads", o.heads, 1 << 16},
                                          {"width", o.width, 1 << 20},
                                          {"context", o.context, 1 << 24},
                                          {"vocabulary", o.vocabulary, (std::int64_t{1} << 31U) - 1},
                                          {"mlp_ratio", o.mlp_ratio, 64}}));
  CAUSEWAY_TRY(detail::check_divides(name, "heads", o.heads, "width", o.width));
  CAUSEWAY_TRY(detail::check_fraction(name, "dropout", o.dropout));
  CAUSEWAY_TRY(detail::check_positive(name, "epsilon", o.epsilon));
  const auto c = static_cast<double>(o.width);
  const double block = static_cast<double>(4 + 2 * o.mlp_ratio) * c * c;
  const double tables = static_cast<double>(o.vocabulary) * (o.tie ? 1.0 : 2.0) + static_cast<double>(o.context);
  return detail::check_count(name, static_cast<double>(o.layers) * block + tables * c);
}

CAUSEWAY_DECL map_sizes gpt_family::maps(const gpt_options& o) noexcept {
  const std::int64_t c = o.width, hidden = o.mlp_ratio * c;
  return {{{c, c}, {c, c}, {c, c}, {c, c}, {}, {c, hidden}, {hidden, c}}};
}

CAUSEWAY_DECL gpt_family::gpt_family(const gpt_options& o, parameter_store& store, const model_part& part) : options_{o} {
  declaration d{store, part, o.layers, o.joined_ends};
  tokens_ = d.token_table("wte.weight", o.vocabulary, o.width, o.tie);
  positions_ = d.table("wpe.weight", o.context, o.width);
  if (o.joined_ends) declare_output(d);
  for (std::int64_t i = 0; i < o.layers; ++i) declare_block(d, i);
  if (!o.joined_ends) declare_output(d);
  initial_ = std::move(d).take_initial();
}

CAUSEWAY_DECL void gpt_family::declare_output(declaration& d) {
  d.in_block(options_.layers);
  final_norm_ = declare_norm(d, "ln_f");
  head_ = options_.tie ? tokens_ : d.table("lm_head.weight", options_.vocabulary, options_.width);
}

CAUSEWAY_DECL void gpt_family::hash_into(hasher& h) const noexcept {
  const auto& o = options_;
  h.add_value(o.layers).add_value(o.heads).add_value(o.width).add_value(o.context).add_value(o.vocabulary);
  h.add_value(o.mlp_ratio).add_value(o.dropout).add_value(o.epsilon).add_value(static_cast<std::uint8_t>(o.tie));
}

CAUSEWAY_DECL activation_bytes gpt_family::activations(std::int64_t rows, std::size_t size) const noexcept {
  const auto bytes = [rows](std::int64_t columns, std::size_t each) { return pooled_bytes(rows, columns, each); };
  const std::int64_t c = options_.width;
  const std::size_t sums = 4 * bytes(1, 4) + bytes(options_.heads, 4);
  return {2 * bytes(c, 4) + 3 * bytes(c, size) + bytes(3 * c, size) + 2 * bytes(options_.mlp_ratio * c, size) + sums,
          bytes(3 * c, size)};
}

CAUSEWAY_DECL void gpt_family::declare_block(declaration& d, std::int64_t i) {
  const std::string p = "h." + std::to_string(i) + ".";
  const std::int64_t c = options_.width;
  const std::int64_t hidden = options_.mlp_ratio * c;
  const float residual = residual_deviation(options_.layers);
  d.in_block(i);
  block_segments b;
  b.norm1 = declare_norm(d, p + "ln_1");
  b.qkv = declare_linear(d, p + "attn.c_attn", 3 * c, c, initial_deviation);
  b.projection = declare_linear(d, p + "attn.c_proj", c, c, residual);
  b.norm2 = declare_norm(d, p + "ln_2");
  b.up = declare_linear(d, p + "mlp.c_fc", hidden, c, initial_deviation);
  b.down = declare_linear(d, p + "mlp.c_proj", c, hidden, residual);
  blocks_.push_back(b);
}

CAUSEWAY_DECL std::size_t gpt_family::declare_norm(declaration& d, const std::string& prefix) const {
  const std::size_t gain = d.vector(prefix + ".weight", options_.width, 1.0F);
  d.vector(prefix + ".bias", options_.width, 0.0F);
  return gain;
}

CAUSEWAY_DECL std::size_t gpt_family::declare_linear(declaration& d, const std::string& prefix, std::int64_t outputs,
                                                     std::int64_t inputs, float deviation) {
  const std::size_t weight = d.matrix(prefix + ".weight", outputs, inputs, deviation);
  d.vector(prefix + ".bias", outputs, 0.0F);
  return weight;
}

#ifdef CAUSEWAY_COMPILED
template class language_model<gpt_family>;
#endif

}}}  // namespace causeway::CAUSEWAY_ABI::nn

#endif  // CAUSEWAY_NN_IMPL_GPT_IPP
