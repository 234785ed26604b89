// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_FORMATS_IMPL_HUGGINGFACE_IPP
#define CAUSEWAY_FORMATS_IMPL_HUGGINGFACE_IPP

#include <causeway/formats/huggingface.hpp>
#include <causeway/io/file.hpp>

#include <algorithm>
#include <set>
#include <span>
#include <string_view>
#include <variant>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace formats { namespace detail {

inline constexpr std::string_view gpt_prefix = "transformer.";  // which files of the bare model do not have
inline constexpr std::string_view head_name = "lm_head.weight";

/// Collects places of tensors whose names differ by what stands before them.
class place_list {
 public:
  void vector(const std::string& theirs, const std::string& ours, std::int64_t size) {
    all_.push_back({theirs, ours, 0, 1, size, true, false});
  }
  void matrix(const std::string& theirs, const std::string& ours, std::int64_t rows, std::int64_t columns,
              std::int64_t first = 0) {
    all_.push_back({theirs, ours, first, rows, columns, false, false});
  }
  /// Weight and bias of a Conv1D.
  void convolution(const std::string& name, std::int64_t outputs, std::int64_t inputs) {
    const std::string theirs = std::string{gpt_prefix} + name;
    all_.push_back({theirs + ".weight", name + ".weight", 0, outputs, inputs, false, true});
    vector(theirs + ".bias", name + ".bias", outputs);
  }
  void layer_norm(const std::string& name, std::int64_t size) {
    const std::string theirs = std::string{gpt_prefix} + name;
    vector(theirs + ".weight", name + ".weight", size);
    vector(theirs + ".bias", name + ".bias", size);
  }
  [[nodiscard]] std::vector<tensor_place> finish() && { return std::move(all_); }

 private:
  std::vector<tensor_place> all_;
};

inline std::vector<tensor_place> list_places(const nn::gpt_options& o) {
  place_list all;
  const std::int64_t c = o.width, hidden = o.mlp_ratio * o.width;
  all.matrix("transformer.wte.weight", "wte.weight", o.vocabulary, c);
  all.matrix("transformer.wpe.weight", "wpe.weight", o.context, c);
  for (std::int64_t i = 0; i < o.layers; ++i) {
    const std::string p = "h." + std::to_string(i) + ".";
    all.layer_norm(p + "ln_1", c);
    all.convolution(p + "attn.c_attn", 3 * c, c);
    all.convolution(p + "attn.c_proj", c, c);
    all.layer_norm(p + "ln_2", c);
    all.convolution(p + "mlp.c_fc", hidden, c);
    all.convolution(p + "mlp.c_proj", c, hidden);
  }
  all.layer_norm("ln_f", c);
  if (!o.tie) all.matrix(std::string{head_name}, "lm_head.weight", o.vocabulary, c);
  return std::move(all).finish();
}

inline std::vector<tensor_place> list_places(const nn::llama_options& o) {
  place_list all;
  const std::int64_t c = o.width, kv = o.kv_heads * (o.width / o.heads);
  all.matrix("model.embed_tokens.weight", "model.embed_tokens.weight", o.vocabulary, c);
  for (std::int64_t i = 0; i < o.layers; ++i) {
    const std::string p = "model.layers." + std::to_string(i) + ".";
    const std::string qkv = p + "self_attn.qkv_proj.weight", gate_up = p + "mlp.gate_up_proj.weight";
    all.vector(p + "input_layernorm.weight", p + "input_layernorm.weight", c);
    all.matrix(p + "self_attn.q_proj.weight", qkv, c, c);
    all.matrix(p + "self_attn.k_proj.weight", qkv, kv, c, c);
    all.matrix(p + "self_attn.v_proj.weight", qkv, kv, c, c + kv);
    all.matrix(p + "self_attn.o_proj.weight", p + "self_attn.o_proj.weight", c, c);
    all.vector(p + "post_attention_layernorm.weight", p + "post_attention_layernorm.weight", c);
    all.matrix(p + "mlp.gate_proj.weight", gate_up, o.hidden, c);
    all.matrix(p + "mlp.up_proj.weight", gate_up, o.hidden, c, o.hidden);
    all.matrix(p + "mlp.down_proj.weight", p + "mlp.down_proj.weight", c, o.hidden);
  }
  all.vector("model.norm.weight", "model.norm.weight", c);
  if (!o.tie) all.matrix(std::string{head_name}, "lm_head.weight", o.vocabulary, c);
  return std::move(all).finish();
}

inline bool is_tied(const model_options& o) {
  return std::visit([](const auto& one) { return one.tie; }, o);
}

/// The tensor of a place; null if the files have none. Untied heads of models stored tied begin as the table.
inline const tensor_entry* find_tensor(const weight_files& files, const tensor_place& p, bool stored_tied,
                                       const std::string& table) {
  const std::string_view name = p.theirs == head_name && stored_tied ? std::string_view{table} : p.theirs;
  if (const tensor_entry* const found = files.find(name)) return found;
  return name.starts_with(gpt_prefix) ? files.find(name.substr(gpt_prefix.size())) : nullptr;
}

inline std::string text_of(std::span<const std::int64_t> shape) {
  std::string text;
  for (const std::int64_t size : shape) text += (text.empty() ? "[" : ", ") + std::to_string(size);
  return text.empty() ? "[]" : text + "]";
}

/// Copies a tensor to its rows of a segment, which may have fewer rows: a table of positions for a shorter context.
inline result<void> read_tensor(const weight_files& files, const tensor_entry& from, const tensor_place& p,
                                const parameter_segment& s, float* to) {
  if (from.shape != p.shape()) {
    return fail(errc::wrong_model, from.name,
                "has the shape " + text_of(from.shape) + "; config.json says " + text_of(p.shape()));
  }
  const std::int64_t rows = std::min(p.rows, s.rows - p.row);
  const std::span<float> out{to + p.row * p.columns, static_cast<std::size_t>(rows * p.columns)};
  if (!p.transposed) return to_floats(from.type, files.bytes(from), 0, out);
  std::vector<float> theirs(out.size());
  CAUSEWAY_TRY(to_floats(from.type, files.bytes(from), 0, theirs));
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = 0; c < p.columns; ++c) {
      out[static_cast<std::size_t>(r * p.columns + c)] = theirs[static_cast<std::size_t>(c * rows + r)];
    }
  }
  return {};
}

/// Nothing of a stored model may be left out, but what follows from the rest of it.
inline result<void> check_all_known(const weight_files& files, const std::vector<tensor_place>& places,
                                    const std::string& folder) {
  std::set<std::string_view> known{head_name};  // of a tied model: the table once more
  for (const tensor_place& p : places) {
    const std::string_view name = p.theirs;
    known.insert(name);
    if (name.starts_with(gpt_prefix)) known.insert(name.substr(gpt_prefix.size()));
  }
  for (const std::string_view name : files.names()) {
    const bool follows = name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias") ||
                         name.ends_with(".rotary_emb.inv_freq");  // buffers: causal masks and wavelengths
    if (follows || known.contains(name)) continue;
    return fail(errc::unsupported, folder,
                "has the tensor " + std::string{name} +
                    ", which no model here has; a LoRA must be merged first, and "
                    "biases in Llama are not computed");
  }
  return {};
}

/// The values of a place as they stand in a file. The parameters must outlive the producer.
inline io::byte_producer values_of(const tensor_place& p, const float* from, element type) {
  return [p, type, from](const io::byte_sink& sink) -> result<void> {
    const std::span<const float> ours{from, static_cast<std::size_t>(p.rows * p.columns)};
    if (!p.transposed) {
      constexpr std::size_t piece = std::size_t{1} << 18U;
      for (std::size_t at = 0; at < ours.size(); at += piece) {
        CAUSEWAY_ASSIGN(const auto bytes, from_floats(type, ours.subspan(at, std::min(piece, ours.size() - at))));
        CAUSEWAY_TRY(sink(bytes));
      }
      return {};
    }
    std::vector<float> row(static_cast<std::size_t>(p.rows));
    for (std::int64_t c = 0; c < p.columns; ++c) {
      for (std::int64_t r = 0; r < p.rows; ++r) {
        row[static_cast<std::size_t>(r)] = ours[static_cast<std::size_t>(r * p.columns + c)];
      }
      CAUSEWAY_ASSIGN(const auto bytes, from_floats(type, row));
      CAUSEWAY_TRY(sink(bytes));
    }
    return {};
  };
}

inline std::string_view torch_name(element type) {
  return type == element::f16 ? "float16" : type == element::bf16 ? "bfloat16" : "float32";
}

inline std::optional<std::size_t> segment_named(const parameter_store& store, std::string_view name) {
  const auto all = store.segments();
  const auto found = std::find_if(all.begin(), all.end(), [&](const auto& s) { return s.name == name; });
  if (found == all.end()) return std::nullopt;
  return static_cast<std::size_t>(found - all.begin());
}

}}}}  // namespace causeway::CAUSEWAY_ABI::formats::detail

namespace causeway { inline namespace CAUSEWAY_ABI { namespace formats {

CAUSEWAY_DECL std::vector<std::int64_t> tensor_place::shape() const {
  if (vector) return {columns};
  return transposed ? std::vector<std::int64_t>{columns, rows} : std::vector<std::int64_t>{rows, columns};
}

CAUSEWAY_DECL std::vector<tensor_place> places_of(const model_options& options) {
  return std::visit([](const auto& o) { return detail::list_places(o); }, options);
}

CAUSEWAY_DECL result<const float*> values_at(parameter_store& parameters, const tensor_place& place) {
  if (const auto segment = detail::segment_named(parameters, place.ours)) {
    return parameters.value(*segment) + place.row * place.columns;
  }
  return fail(errc::invalid_argument, place.ours, "is not held here; gather the whole model before it is saved");
}

CAUSEWAY_DECL result<void> load_parameters(const std::string& folder, const model_options& wanted,
                                           parameter_store& parameters, const std::set<std::string>& keep) {
  CAUSEWAY_ASSIGN(model_options stored, read_config_of(folder));
  CAUSEWAY_TRY(check_same_model(stored, wanted));
  CAUSEWAY_ASSIGN(const weight_files files, weight_files::open(folder));
  const bool stored_tied = detail::is_tied(stored);
  std::visit([&](auto& o) { o.tie = detail::is_tied(wanted); }, stored);
  const auto places = places_of(stored);
  CAUSEWAY_TRY(detail::check_all_known(files, places, folder));
  for (const tensor_place& p : places) {
    const auto segment = detail::segment_named(parameters, p.ours);
    if (!segment || keep.contains(p.ours)) continue;  // of a part that is not held here, or was before
    const tensor_entry* const from = detail::find_tensor(files, p, stored_tied, places.front().theirs);
    if (from == nullptr) return fail(errc::corrupt, folder, "has no tensor " + p.theirs + "; get its files again");
    auto done = detail::read_tensor(files, *from, p, parameters.segments()[*segment], parameters.value(*segment));
    if (!done) {
      done.error().where = folder + ", " + p.theirs;
      return done;
    }
  }
  parameters.touch();
  return {};
}

CAUSEWAY_DECL result<void> save_parameters(const std::string& folder, const model_options& options,
                                           parameter_store& parameters, const save_options& save) {
  std::vector<tensor_source> tensors;
  for (const tensor_place& p : places_of(options)) {
    CAUSEWAY_ASSIGN(const float* const values, values_at(parameters, p));
    tensors.push_back({p.theirs, save.type, p.shape(), detail::values_of(p, values, save.type)});
  }
  io::posix_storage storage;
  CAUSEWAY_TRY(storage.write_atomic(folder + "/model.safetensors", safetensors(std::move(tensors), {{"format", "pt"}})));
  const std::string config = config_text(options, save.end_of_text, detail::torch_name(save.type));
  return storage.write_atomic(config_file(folder), io::produce(config));
}

}}}  // namespace causeway::CAUSEWAY_ABI::formats

#endif  // CAUSEWAY_FORMATS_IMPL_HUGGINGFACE_IPP
