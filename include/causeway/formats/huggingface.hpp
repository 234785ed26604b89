// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_FORMATS_HUGGINGFACE_HPP
#define CAUSEWAY_FORMATS_HUGGINGFACE_HPP

// Models in folders that Hugging Face's transformers writes and reads: config.json and safetensors, for GPT-2 and Llama.
// What is loaded computes what it computed there, and what is saved computes there what it computes here.

#include <causeway/core/result.hpp>
#include <causeway/formats/model_config.hpp>
#include <causeway/formats/safetensors.hpp>
#include <causeway/formats/weight_files.hpp>
#include <causeway/tensor/parameters.hpp>

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace formats {

/// Where a tensor of theirs lies in our parameters: rows [row, row + rows) of the segment `ours`.
struct tensor_place {
  std::string theirs;
  std::string ours;
  std::int64_t row = 0;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  bool vector = false;      ///< theirs has one dimension
  bool transposed = false;  ///< theirs is [columns, rows], as GPT-2's Conv1D keeps its weights

  CAUSEWAY_DECL [[nodiscard]] std::vector<std::int64_t> shape() const;
};

/// All tensors of a model, by their names.
CAUSEWAY_DECL [[nodiscard]] std::vector<tensor_place> places_of(const model_options& options);

/// The values of a place, [rows, columns]; errc::invalid_argument if the parameters, of a part of a model, do not have it.
CAUSEWAY_DECL result<const float*> values_at(parameter_store& parameters, const tensor_place& place);

/// Fills `parameters`, those of a model with the options `wanted` or of a part of it, from a folder. Errors say which
/// tensor is missing, unknown or of another shape: then the parameters are in part those of the folder. Segments named in
/// `keep` stay as they are.
CAUSEWAY_DECL result<void> load_parameters(const std::string& folder, const model_options& wanted,
                                           parameter_store& parameters, const std::set<std::string>& keep = {});

struct save_options {
  element type = element::f32;  ///< f16 and bf16 halve the file, and round
  std::optional<std::int32_t> end_of_text = std::nullopt;
};

/// Writes config.json and model.safetensors, each atomically, the weights first. The parameters must be a whole model's.
CAUSEWAY_DECL result<void> save_parameters(const std::string& folder, const model_options& options,
                                           parameter_store& parameters, const save_options& save = {});

/// The parameters of `folder` into a model that was made with its options (`read_config_of`).
template <class Model>
result<void> load_model(const std::string& folder, Model& model, const std::set<std::string>& keep = {}) {
  return load_parameters(folder, model.options(), model.parameters(), keep);
}

/// A whole model into `folder`.
template <class Model>
result<void> save_model(const std::string& folder, Model& model, const save_options& save = {}) {
  return save_parameters(folder, model.options(), model.parameters(), save);
}

}}}  // namespace causeway::CAUSEWAY_ABI::formats

#ifndef CAUSEWAY_COMPILED
#include <causeway/formats/impl/huggingface.ipp>
#endif

#endif  // CAUSEWAY_FORMATS_HUGGINGFACE_HPP
