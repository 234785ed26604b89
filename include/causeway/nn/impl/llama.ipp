// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_NN_IMPL_LLAMA_IPP
#define CAUSEWAY_NN_IMPL_LLAMA_IPP

#include <causeway/nn/llama.hpp>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace nn {

CAUSEWAY_DECL result<void> llama_family::validate(const llama_options& o) {
  CAUSEWAY_TRY(detail::check_sizes(name, {{"layers", o.layers, 1 << 16},
                                          {"heads", o.heads, 1 << 16},
                                          {"kv_heads", o.kv_heads, 1 << 16},
                                          {"width", o.width, 1 << 20},
                                          {"hidden", o.hidden, 1 << 24},
                                          {"context", o.context, 1 << 24},
                                          {"vocabulary", o.vocabulary, (std::int64_t{1} << 31U) - 1}}));
  CAUSEWAY_TRY(detail::check_divides(name, "heads", o.heads, "width", o.width));
  CAUSEWAY_TRY(detail::check_divides(name, "kv_heads", o.kv_heads, "heads", o.heads));
  if (o.width / o.heads % 2 != 0) {
    return fail(errc::invalid_argument, std::string{name},
                "heads of size " + std::to_string(o.width / o.heads) + " (width " + std::to_string(o.width) + " over " +
                    std::to_string(o.heads) + " heads); rotary positions turn pairs, so the size must be even");
  }
  CAUSEWAY_TRY(detail::check_positive(name, "epsilon", o.epsilon));
  CAUSEWAY_TRY(detail::check_positive(name, "theta", o.theta));
  const auto& r = o.scaling;
  if (!(r.factor >= 1.0F && r.low > 0.0F && r.high > r.low && r.original_context > 0)) {
    return fail(errc::invalid_argument, std::string{name},
                "scaling of rotary positions needs a factor of at least 1, 0 < low < high, and an original context");
  }
  const auto c = static_cast<double>(o.width);
  const double kv = 2.0 * static_cast<double>(o.kv_heads) / static_cast<double>(o.heads);
  const double block = (2.0 + kv) * c * c + 3.0 * c * static_cast<double>(o.hidden);
  const double tables = static_cast<double>(o.vocabulary) * (o.tie ? 1.0 : 2.0);
  return detail::check_count(name, static_cast<double>(o.layers) * block + tables * c);
}

CAUSEWAY_DECL map_sizes llama_family::maps(const llama_options& o) noexcept {
  const std::int64_t c = o.width, kv = o.kv_heads * (c / o.heads);
  return {{{c, c}, {c, kv}, {c, kv}, {c, c}, {c, o.hidden}, {c, o.hidden}, {o.hidden, c}}};
}

CAUSEWAY_DECL llama_family::llama_family(const llama_options& o, parameter_store& store, const model_part& part)
    : options_{o}, rotary_{o.context, head_size(), static_cast<double>(o.theta), o.scaling} {
  declaration d{store, part, o.layers, o.joined_ends};
  tokens_ = d.token_table("model.embed_tokens.weight", o.vocabulary, o.width, o.tie);
  if (o.joined_ends) declare_output(d);
  for (std::int64_t i = 0; i < o.layers; ++i) declare_block(d, i);
  if (!o.joined_ends) declare_output(d);
  initial_ = std::move(d).take_initial();
}

CAUSEWAY_DECL void llama_family::declare_output(declaration& d) {
  d.in_block(options_.layers);
  final_norm_ = d.vector("model.norm.weight", options_.width, 1.0F);
  head_ = options_.tie ? tokens_ : d.table("lm_head.weight", options_.vocabulary, options_.width);
}

CAUSEWAY_DECL void llama_family::hash_into(hasher& h) const noexcept {
  const auto& o = options_;
  h.add_value(o.layers).add_value(o.heads).add_value(o.kv_heads).add_value(o.width).add_value(o.hidden);
  h.add_value(o.context).add_value(o.vocabulary).add_value(o.theta).add_value(o.epsilon);
  h.add_value(static_cast<std::uint8_t>(o.tie));
  const auto& r = o.scaling;
  if (r.factor != 1.0F) h.add_value(r.factor).add_value(r.low).add_value(r.high).add_value(r.original_context);
}

CAUSEWAY_DECL activation_bytes llama_family::activations(std::int64_t rows, std::size_t size) const noexcept {
  const auto bytes = [rows](std::int64_t columns, std::size_t each) { return pooled_bytes(rows, columns, each); };
  const std::int64_t c = options_.width;
  const std::int64_t packed = c + 2 * options_.kv_heads * head_size();
  const std::size_t sums = 2 * bytes(1, 4) + bytes(options_.heads, 4);
  const std::size_t mlp = bytes(2 * options_.hidden, size) + bytes(options_.hidden, size);
  return {2 * bytes(c, 4) + 3 * bytes(c, size) + bytes(packed, size) + mlp + sums,
          bytes(packed, size) + bytes(2 * options_.hidden, size)};
}

CAUSEWAY_DECL void llama_family::declare_block(declaration& d, std::int64_t i) {
  const std::string p = "model.layers." + std::to_string(i) + ".";
  const std::int64_t c = options_.width;
  const float residual = residual_deviation(options_.layers);
  d.in_block(i);
  block_segments b;
  b.norm1 = d.vector(p + "input_layernorm.weight", c, 1.0F);
  b.qkv = d.matrix(p + "self_attn.qkv_proj.weight", c + 2 * options_.kv_heads * head_size(), c);
  b.projection = d.matrix(p + "self_attn.o_proj.weight", c, c, residual);
  b.norm2 = d.vector(p + "post_attention_layernorm.weight", c, 1.0F);
  b.gate_up = d.matrix(p + "mlp.gate_up_proj.weight", 2 * options_.hidden, c);
  b.down = d.matrix(p + "mlp.down_proj.weight", c, options_.hidden, residual);
  blocks_.push_back(b);
}

#ifdef CAUSEWAY_COMPILED
template class language_model<llama_family>;
#endif

}}}  // namespace causeway::CAUSEWAY_ABI::nn

#endif  // CAUSEWAY_NN_IMPL_LLAMA_IPP
