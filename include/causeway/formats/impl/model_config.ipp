// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_FORMATS_IMPL_MODEL_CONFIG_IPP
#define CAUSEWAY_FORMATS_IMPL_MODEL_CONFIG_IPP

#include <causeway/formats/model_config.hpp>

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <utility>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace formats { namespace detail {

/// Reads settings by name. The first one that does not fit is remembered; what is read after it does not matter.
class config_reader {
 public:
  config_reader(const json_value& root, const std::string& where) : root_{root}, where_{where} {}

  /// Null where it is missing or null, as transformers has it.
  [[nodiscard]] const json_value* find(std::string_view name) const {
    const json_value* const v = root_.find(name);
    return v == nullptr || v->is(json_value::kind::null) ? nullptr : v;
  }
  std::int64_t size(std::string_view name, std::int64_t otherwise) {
    const json_value* const v = find(name);
    if (v == nullptr) return otherwise;
    if (v->is(json_value::kind::integer) && v->integer >= 1) return v->integer;
    bad(name, "is no size");
    return otherwise;
  }
  float number(std::string_view name, float otherwise) {
    const json_value* const v = find(name);
    if (v == nullptr) return otherwise;
    const bool fits = v->is(json_value::kind::integer) || v->is(json_value::kind::number);
    if (!fits || !(std::fabs(v->number) <= 3e38)) bad(name, "is no number");
    return static_cast<float>(v->number);
  }
  bool flag(std::string_view name, bool otherwise) {
    const json_value* const v = find(name);
    if (v == nullptr) return otherwise;
    if (!v->is(json_value::kind::boolean)) bad(name, "is neither true nor false");
    return v->boolean;
  }
  std::string text(std::string_view name, const std::string& otherwise) {
    const json_value* const v = find(name);
    if (v == nullptr) return otherwise;
    if (!v->is(json_value::kind::text)) bad(name, "is no text");
    return v->text;
  }

  /// What our models have no choice about.
  void must_be(std::string_view name, bool wanted) {
    if (flag(name, wanted) != wanted) refuse(name, wanted ? "is false" : "is true");
  }
  void must_be_one_of(std::string_view name, std::initializer_list<std::string_view> allowed) {
    const std::string given = text(name, std::string{*allowed.begin()});
    if (std::find(allowed.begin(), allowed.end(), given) == allowed.end()) refuse(name, "is " + json_quoted(given));
  }
  void must_be_missing(std::string_view name) {
    if (find(name) != nullptr) refuse(name, "is given");
  }

  void bad(std::string_view name, const std::string& why) { stop(errc::corrupt, name, why); }
  void refuse(std::string_view name, const std::string& why) {
    stop(errc::unsupported, name, why + ", which the models here do not compute; use a model without that");
  }
  [[nodiscard]] result<void> outcome() const {
    if (failure_) return *failure_;
    return {};
  }

 private:
  void stop(errc code, std::string_view name, const std::string& why) {
    if (!failure_) failure_ = fail(code, where_, std::string{name} + " " + why);
  }

  const json_value& root_;
  const std::string& where_;
  std::optional<error> failure_;
};

inline result<model_options> read_gpt(config_reader& in) {
  nn::gpt_options o;
  o.layers = in.size("n_layer", 12), o.heads = in.size("n_head", 12), o.width = in.size("n_embd", 768);
  o.context = in.size("n_positions", 1024), o.vocabulary = in.size("vocab_size", 50257);
  o.epsilon = in.number("layer_norm_epsilon", 1e-5F);
  o.tie = in.flag("tie_word_embeddings", true);
  const std::int64_t hidden = in.find("n_inner") == nullptr ? 0 : in.size("n_inner", 0);
  o.mlp_ratio = hidden == 0 ? 4 : hidden / o.width;
  if (hidden % o.width != 0) in.refuse("n_inner", "is no multiple of n_embd");
  in.must_be_one_of("activation_function", {"gelu_new", "gelu_pytorch_tanh"});
  in.must_be("scale_attn_weights", true);
  in.must_be("scale_attn_by_inverse_layer_idx", false);
  in.must_be("add_cross_attention", false);
  in.must_be_missing("quantization_config");
  CAUSEWAY_TRY(in.outcome());
  CAUSEWAY_TRY(nn::gpt_family::validate(o));
  return model_options{o};
}

/// Newer files have everything about rotary positions in rope_parameters, older ones in rope_theta and rope_scaling.
inline result<void> read_rotary(config_reader& in, const std::string& where, nn::llama_options& o) {
  o.theta = in.number("rope_theta", 10000.0F);
  const json_value* from = in.find("rope_parameters");
  if (from == nullptr) from = in.find("rope_scaling");
  if (from == nullptr) return {};
  config_reader rotary{*from, where};
  o.theta = rotary.number("rope_theta", o.theta);
  const std::string type = rotary.text("rope_type", rotary.text("type", "default"));
  if (type == "llama3") {
    for (const char* name : {"factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"}) {
      if (rotary.find(name) == nullptr) rotary.bad(name, "is missing; the rotary scaling llama3 needs it");
    }
    o.scaling = {rotary.number("factor", 1), rotary.number("low_freq_factor", 1), rotary.number("high_freq_factor", 4),
                 rotary.size("original_max_position_embeddings", 8192)};
  } else if (type != "default") {
    rotary.refuse("rope_type", "is " + json_quoted(type));
  }
  return rotary.outcome();
}

inline result<model_options> read_llama(config_reader& in, const std::string& where) {
  nn::llama_options o;
  o.layers = in.size("num_hidden_layers", 32), o.heads = in.size("num_attention_heads", 32);
  o.kv_heads = in.size("num_key_value_heads", o.heads), o.width = in.size("hidden_size", 4096);
  o.hidden = in.size("intermediate_size", 11008), o.context = in.size("max_position_embeddings", 2048);
  o.vocabulary = in.size("vocab_size", 32000);
  o.epsilon = in.number("rms_norm_eps", 1e-6F);
  o.tie = in.flag("tie_word_embeddings", false);
  in.must_be_one_of("hidden_act", {"silu", "swish"});
  in.must_be("attention_bias", false);
  in.must_be("mlp_bias", false);
  in.must_be_missing("quantization_config");
  if (in.number("partial_rotary_factor", 1.0F) != 1.0F) in.refuse("partial_rotary_factor", "is not 1");
  CAUSEWAY_TRY(in.outcome());
  CAUSEWAY_TRY(read_rotary(in, where, o));
  CAUSEWAY_TRY(nn::llama_family::validate(o));
  if (in.size("head_dim", o.width / o.heads) != o.width / o.heads) {
    in.refuse("head_dim", "is not hidden_size over num_attention_heads");
  }
  CAUSEWAY_TRY(in.outcome());
  return model_options{o};
}

/// Lines `"name": value` of an object.
class config_writer {
 public:
  void add(std::string_view name, const std::string& value) {
    text_ += (text_.size() > 1 ? ",\n  " : "\n  ") + json_quoted(name) + ": " + value;
  }
  void add(std::string_view name, std::int64_t value) { add(name, std::to_string(value)); }
  void add(std::string_view name, float value) { add(name, json_number(value)); }
  void flag(std::string_view name, bool value) { add(name, std::string{value ? "true" : "false"}); }
  void quoted(std::string_view name, std::string_view value) { add(name, json_quoted(value)); }
  [[nodiscard]] std::string finish() && { return std::move(text_) + "\n}\n"; }

 private:
  std::string text_ = "{";
};

inline void write_options(config_writer& out, const nn::gpt_options& o) {
  out.add("architectures", std::string{"[\"GPT2LMHeadModel\"]"});
  out.quoted("model_type", "gpt2");
  out.quoted("activation_function", "gelu_new");
  out.add("attn_pdrop", 0.0F);
  out.add("embd_pdrop", o.dropout);
  out.add("resid_pdrop", o.dropout);
  out.add("layer_norm_epsilon", o.epsilon);
  out.add("n_embd", o.width);
  out.add("n_head", o.heads);
  out.add("n_inner", o.mlp_ratio * o.width);
  out.add("n_layer", o.layers);
  out.add("n_positions", o.context);
  out.flag("tie_word_embeddings", o.tie);
  out.add("vocab_size", o.vocabulary);
}

inline void write_options(config_writer& out, const nn::llama_options& o) {
  out.add("architectures", std::string{"[\"LlamaForCausalLM\"]"});
  out.quoted("model_type", "llama");
  out.flag("attention_bias", false);
  out.quoted("hidden_act", "silu");
  out.add("hidden_size", o.width);
  out.add("intermediate_size", o.hidden);
  out.add("max_position_embeddings", o.context);
  out.flag("mlp_bias", false);
  out.add("num_attention_heads", o.heads);
  out.add("num_hidden_layers", o.layers);
  out.add("num_key_value_heads", o.kv_heads);
  out.add("rms_norm_eps", o.epsilon);
  out.add("rope_theta", o.theta);
  if (o.scaling.factor == 1.0F) {
    out.add("rope_scaling", std::string{"null"});
  } else {
    out.add("rope_scaling",
            "{\"rope_type\": \"llama3\", \"factor\": " + json_number(o.scaling.factor) + ", \"low_freq_factor\": " +
                json_number(o.scaling.low) + ", \"high_freq_factor\": " + json_number(o.scaling.high) +
                ", \"original_max_position_embeddings\": " + std::to_string(o.scaling.original_context) + "}");
  }
  out.flag("tie_word_embeddings", o.tie);
  out.add("vocab_size", o.vocabulary);
}

/// Says which option differs.
class option_comparer {
 public:
  template <class T>
  void same(const char* name, const T& stored, const T& wanted) {
    if (stored != wanted && differs_.empty()) differs_ = name;
  }
  void same_output_layer(bool stored_tied, bool wanted_tied) {
    if (wanted_tied && !stored_tied) same("tie", stored_tied, wanted_tied);
  }
  void long_enough(std::int64_t stored, std::int64_t wanted) {
    if (wanted > stored) same("context", stored, wanted);
  }
  [[nodiscard]] result<void> outcome() const {
    if (differs_.empty()) return {};
    return fail(errc::wrong_model, differs_,
                "is another one in the stored model than here; make the model with the options that its folder gives");
  }

 private:
  std::string differs_;
};

inline void compare(option_comparer& c, const nn::gpt_options& a, const nn::gpt_options& b) {
  c.same("layers", a.layers, b.layers), c.same("heads", a.heads, b.heads), c.same("width", a.width, b.width);
  c.same("vocabulary", a.vocabulary, b.vocabulary), c.same("mlp_ratio", a.mlp_ratio, b.mlp_ratio);
  c.same("epsilon", a.epsilon, b.epsilon);
  c.same_output_layer(a.tie, b.tie), c.long_enough(a.context, b.context);
}

inline void compare(option_comparer& c, const nn::llama_options& a, const nn::llama_options& b) {
  c.same("layers", a.layers, b.layers), c.same("heads", a.heads, b.heads), c.same("width", a.width, b.width);
  c.same("kv_heads", a.kv_heads, b.kv_heads), c.same("hidden", a.hidden, b.hidden);
  c.same("vocabulary", a.vocabulary, b.vocabulary), c.same("theta", a.theta, b.theta);
  c.same("scaling", a.scaling, b.scaling), c.same("epsilon", a.epsilon, b.epsilon);
  c.same_output_layer(a.tie, b.tie), c.long_enough(a.context, b.context);
}

}}}}  // namespace causeway::CAUSEWAY_ABI::formats::detail

namespace causeway { inline namespace CAUSEWAY_ABI { namespace formats {

CAUSEWAY_DECL result<model_options> read_config(std::string_view text, const std::string& where) {
  CAUSEWAY_ASSIGN(const json_value root, parse_json(text, where));
  if (!root.is_object()) return fail(errc::corrupt, where, "is not an object; get the file again");
  detail::config_reader in{root, where};
  const std::string type = in.text("model_type", "");
  if (type == "gpt2") return detail::read_gpt(in);
  if (type == "llama") return detail::read_llama(in, where);
  return fail(errc::unsupported, where, "has the model_type " + json_quoted(type) + "; gpt2 and llama are known here");
}

CAUSEWAY_DECL result<model_options> read_config_of(const std::string& folder) {
  const std::string path = config_file(folder);
  CAUSEWAY_ASSIGN(const std::string text,
                  read_text_file(path, "give a folder that transformers' save_pretrained or causeway export has written"));
  return read_config(text, path);
}

CAUSEWAY_DECL std::string config_text(const model_options& options, std::optional<std::int32_t> end_of_text,
                                      std::string_view type) {
  detail::config_writer out;
  std::visit([&](const auto& o) { detail::write_options(out, o); }, options);
  const std::string end = end_of_text ? std::to_string(*end_of_text) : "null";
  out.add("bos_token_id", end);
  out.add("eos_token_id", end);
  out.quoted("torch_dtype", type);
  return std::move(out).finish();
}

CAUSEWAY_DECL result<void> check_same_model(const model_options& stored, const model_options& wanted) {
  detail::option_comparer c;
  c.same("family", stored.index(), wanted.index());
  if (stored.index() == wanted.index()) {
    if (const auto* o = std::get_if<nn::gpt_options>(&stored)) {
      detail::compare(c, *o, std::get<nn::gpt_options>(wanted));
    } else {
      detail::compare(c, std::get<nn::llama_options>(stored), std::get<nn::llama_options>(wanted));
    }
  }
  return c.outcome();
}

}}}  // namespace causeway::CAUSEWAY_ABI::formats

#endif  // CAUSEWAY_FORMATS_IMPL_MODEL_CONFIG_IPP
