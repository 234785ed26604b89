// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_FORMATS_IMPL_GGUF_MODEL_IPP
#define CAUSEWAY_FORMATS_IMPL_GGUF_MODEL_IPP

#include <causeway/formats/gguf_model.hpp>

#include <causeway/formats/huggingface.hpp>
#include <causeway/formats/tokenizer_parts.hpp>
#include <causeway/io/file.hpp>
#include <causeway/kernels/rotary.hpp>

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace formats { namespace detail {

using renamed = std::pair<std::string_view, std::string_view>;

inline constexpr std::array<renamed, 21> gguf_names{{{"wte", "token_embd"},
                                                     {"wpe", "position_embd"},
                                                     {"ln_f", "output_norm"},
                                                     {"ln_1", "attn_norm"},
                                                     {"attn.c_attn", "attn_qkv"},
                                                     {"attn.c_proj", "attn_output"},
                                                     {"ln_2", "ffn_norm"},
                                                     {"mlp.c_fc", "ffn_up"},
                                                     {"mlp.c_proj", "ffn_down"},
                                                     {"lm_head", "output"},
                                                     {"embed_tokens", "token_embd"},
                                                     {"norm", "output_norm"},
                                                     {"input_layernorm", "attn_norm"},
                                                     {"self_attn.q_proj", "attn_q"},
                                                     {"self_attn.k_proj", "attn_k"},
                                                     {"self_attn.v_proj", "attn_v"},
                                                     {"self_attn.o_proj", "attn_output"},
                                                     {"post_attention_layernorm", "ffn_norm"},
                                                     {"mlp.gate_proj", "ffn_gate"},
                                                     {"mlp.up_proj", "ffn_up"},
                                                     {"mlp.down_proj", "ffn_down"}}};

/// The numbers of general.file_type.
inline std::uint32_t file_type(gguf_type type) noexcept {
  switch (type) {
    case gguf_type::f16: return 1;
    case gguf_type::q8_0: return 7;
    case gguf_type::bf16: return 32;
    case gguf_type::f32: break;
  }
  return 0;
}

inline void describe(gguf_metadata& m, const nn::gpt_options& o) {
  m.add("general.architecture", "gpt2");
  m.add("gpt2.block_count", o.layers);
  m.add("gpt2.context_length", o.context);
  m.add("gpt2.embedding_length", o.width);
  m.add("gpt2.feed_forward_length", o.mlp_ratio * o.width);
  m.add("gpt2.attention.head_count", o.heads);
  m.add("gpt2.attention.layer_norm_epsilon", o.epsilon);
  m.add("gpt2.vocab_size", o.vocabulary);
}

inline void describe(gguf_metadata& m, const nn::llama_options& o) {
  m.add("general.architecture", "llama");
  m.add("llama.block_count", o.layers);
  m.add("llama.context_length", o.context);
  m.add("llama.embedding_length", o.width);
  m.add("llama.feed_forward_length", o.hidden);
  m.add("llama.attention.head_count", o.heads);
  m.add("llama.attention.head_count_kv", o.kv_heads);
  m.add("llama.attention.layer_norm_rms_epsilon", o.epsilon);
  m.add("llama.rope.dimension_count", o.width / o.heads);
  m.add("llama.rope.freq_base", o.theta);
  m.add("llama.vocab_size", o.vocabulary);
}

/// How llama.cpp names the rule by which a tokenizer cuts text.
inline result<std::string_view> name_of_rule(const data::bpe_table& table) {
  if (table.pieces == data::piece_rule::llama3) {
    return std::string_view{table.whole_pieces ? "llama-bpe" : "smaug-bpe"};
  }
  if (!table.whole_pieces) return std::string_view{"gpt-2"};
  return fail(errc::unsupported, "GGUF",
              "has no tokenizer that cuts text as GPT-2's does and takes whole words first (ignore_merges); use "
              "causeway export DIR, which keeps it");
}

/// What a token is, by the numbers of the format.
enum class token_kind : std::int32_t { normal = 1, control = 3, unused = 5 };

/// Kinds of all rows of the token table; numbers without a token get a name, since all must have another one.
inline std::vector<std::int32_t> kinds_of(const data::bpe_table& table, std::vector<std::string>& names) {
  std::vector<std::int32_t> kinds(names.size(), static_cast<std::int32_t>(token_kind::normal));
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (!names[i].empty()) continue;
    names[i] = "[unused " + std::to_string(i) + "]";  // no token of bytes has a space in its name
    kinds[i] = static_cast<std::int32_t>(token_kind::unused);
  }
  for (const data::special_token& s : table.specials) {
    kinds[static_cast<std::size_t>(s.token)] = static_cast<std::int32_t>(token_kind::control);
  }
  return kinds;
}

inline std::optional<std::int32_t> begin_of_text(const data::bpe_table& table) {
  for (const data::special_token& s : table.specials) {
    if (s.name == "<|begin_of_text|>") return s.token;
  }
  return table.end_of_text;
}

inline result<void> describe(gguf_metadata& m, const data::bpe_tokenizer& tokenizer, std::int64_t rows) {
  const data::bpe_table& table = tokenizer.table();
  if (rows < tokenizer.vocabulary()) {
    return fail(errc::wrong_model, "tokenizer",
                "has " + std::to_string(tokenizer.vocabulary()) + " tokens, and the model " + std::to_string(rows) +
                    "; use the tokenizer that it was trained with");
  }
  CAUSEWAY_ASSIGN(token_names names, names_of(tokenizer, "GGUF"));
  CAUSEWAY_ASSIGN(const std::string_view rule, name_of_rule(table));
  names.tokens.resize(static_cast<std::size_t>(rows));
  const std::vector<std::int32_t> kinds = kinds_of(table, names.tokens);
  m.add("tokenizer.ggml.model", "gpt2");
  m.add("tokenizer.ggml.pre", rule);
  m.add("tokenizer.ggml.tokens", std::span<const std::string>{names.tokens});
  m.add("tokenizer.ggml.token_type", std::span<const std::int32_t>{kinds});
  m.add("tokenizer.ggml.merges", std::span<const std::string>{names.merges});
  if (const auto begin = begin_of_text(table)) m.add("tokenizer.ggml.bos_token_id", static_cast<std::uint32_t>(*begin));
  if (table.end_of_text) m.add("tokenizer.ggml.eos_token_id", static_cast<std::uint32_t>(*table.end_of_text));
  m.add("tokenizer.ggml.add_bos_token", false);  // no text that was trained on begins with one
  return {};
}

/// Rows are stored as they are; or, where heads are rotated, in the order of rotations that take neighbours: element i of
/// a head and element i + half become 2i and 2i + 1.
struct row_order {
  std::int64_t head = 0;  ///< rows of a head; 0: as they are

  [[nodiscard]] std::int64_t operator()(std::int64_t row) const noexcept {
    if (head == 0) return row;
    const std::int64_t within = row % head;
    return row - within + within / 2 + within % 2 * (head / 2);
  }
};

/// The values of a place. The parameters must outlive the producer.
inline io::byte_producer values_of(const tensor_place& p, const float* from, gguf_type type, row_order order) {
  return [p, type, order, from](const io::byte_sink& sink) -> result<void> {
    const std::int64_t most = std::max<std::int64_t>(1, (std::int64_t{1} << 18U) / p.columns);
    std::vector<float> piece;
    for (std::int64_t row = 0; row < p.rows; row += most) {
      piece.clear();
      for (std::int64_t r = row; r < std::min(p.rows, row + most); ++r) {
        const float* const values = from + order(r) * p.columns;
        piece.insert(piece.end(), values, values + p.columns);
      }
      CAUSEWAY_ASSIGN(const auto bytes, gguf_bytes(type, piece));
      CAUSEWAY_TRY(sink(bytes));
    }
    return {};
  };
}

inline gguf_type type_of(const tensor_place& p, gguf_type wanted) noexcept {
  if (p.vector || p.ours == "wpe.weight") return gguf_type::f32;
  return wanted == gguf_type::q8_0 && p.columns % q8_0_block != 0 ? gguf_type::f16 : wanted;
}

inline row_order order_of(const tensor_place& p, const model_options& options) noexcept {
  const auto* const o = std::get_if<nn::llama_options>(&options);
  const bool rotated = p.theirs.ends_with("q_proj.weight") || p.theirs.ends_with("k_proj.weight");
  return {o != nullptr && rotated ? o->width / o->heads : 0};
}

/// By how much each frequency is divided; nothing where none is.
inline std::vector<float> divisors_of(const model_options& options) {
  std::vector<float> all;
  const auto* const o = std::get_if<nn::llama_options>(&options);
  if (o == nullptr || o->scaling.factor == 1.0F) return all;
  const std::int64_t head = o->width / o->heads;
  for (std::int64_t i = 0; i < head / 2; ++i) {
    const double frequency = kernels::rotary_frequency(static_cast<double>(o->theta), i, head);
    all.push_back(static_cast<float>(frequency / o->scaling.stretched(frequency)));
  }
  return all;
}

inline gguf_tensor divisor_tensor(std::vector<float> divisors) {
  const auto count = static_cast<std::int64_t>(divisors.size());
  return {"rope_freqs.weight", gguf_type::f32, 1, count, true, [all = std::move(divisors)](const io::byte_sink& sink) {
            return sink(std::as_bytes(std::span{all}));
          }};
}

inline result<std::vector<gguf_tensor>> tensors_of(const model_options& options, parameter_store& parameters,
                                                   gguf_type wanted) {
  std::vector<gguf_tensor> all;
  for (const tensor_place& p : places_of(options)) {
    CAUSEWAY_ASSIGN(const float* const values, values_at(parameters, p));
    const gguf_type type = type_of(p, wanted);
    all.push_back(
        {gguf_name(p.theirs), type, p.rows, p.columns, p.vector, values_of(p, values, type, order_of(p, options))});
  }
  if (auto divisors = divisors_of(options); !divisors.empty()) all.push_back(divisor_tensor(std::move(divisors)));
  return all;
}

}}}}  // namespace causeway::CAUSEWAY_ABI::formats::detail

namespace causeway { inline namespace CAUSEWAY_ABI { namespace formats {

CAUSEWAY_DECL std::string gguf_name(std::string_view theirs) {
  std::string block;
  for (const std::string_view prefix : {"transformer.", "model."}) {
    if (theirs.starts_with(prefix)) theirs.remove_prefix(prefix.size());
  }
  for (const std::string_view prefix : {"h.", "layers."}) {
    if (!theirs.starts_with(prefix)) continue;
    theirs.remove_prefix(prefix.size());
    const std::size_t dot = theirs.find('.');
    block = "blk." + std::string{theirs.substr(0, dot + 1)};
    theirs.remove_prefix(dot + 1);
  }
  const std::size_t dot = theirs.rfind('.');
  const std::string_view module = theirs.substr(0, dot), part = theirs.substr(dot);
  const auto* const found = std::find_if(detail::gguf_names.begin(), detail::gguf_names.end(),
                                         [&](const detail::renamed& n) { return n.first == module; });
  CAUSEWAY_EXPECT(found != detail::gguf_names.end());  // places_of has no other
  return block + std::string{found->second} + std::string{part};
}

CAUSEWAY_DECL result<void> save_gguf(const std::string& path, const model_options& options, parameter_store& parameters,
                                     const data::bpe_tokenizer& tokenizer, const gguf_options& save) {
  gguf_metadata metadata;
  std::visit([&](const auto& o) { detail::describe(metadata, o); }, options);
  metadata.add("general.type", "model");
  metadata.add("general.name", std::string_view{save.name});
  metadata.add("general.file_type", detail::file_type(save.type));
  metadata.add("general.quantization_version", 2U);
  const std::int64_t rows = std::visit([](const auto& o) { return o.vocabulary; }, options);
  CAUSEWAY_TRY(detail::describe(metadata, tokenizer, rows));
  CAUSEWAY_ASSIGN(auto tensors, detail::tensors_of(options, parameters, save.type));
  io::posix_storage storage;
  return storage.write_atomic(path, gguf(std::move(metadata), std::move(tensors)));
}

}}}  // namespace causeway::CAUSEWAY_ABI::formats

#endif  // CAUSEWAY_FORMATS_IMPL_GGUF_MODEL_IPP
