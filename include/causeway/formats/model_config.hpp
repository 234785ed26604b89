// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_FORMATS_MODEL_CONFIG_HPP
#define CAUSEWAY_FORMATS_MODEL_CONFIG_HPP

// config.json of Hugging Face's transformers for the model types gpt2 and llama, as the options of our models and back.
// What our models cannot compute exactly as transformers does is an error that names the setting; nothing is approximated.

#include <causeway/core/result.hpp>
#include <causeway/formats/json.hpp>
#include <causeway/formats/weight_files.hpp>
#include <causeway/nn/gpt.hpp>
#include <causeway/nn/llama.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace formats {

/// Of a family that both sides know.
using model_options = std::variant<nn::gpt_options, nn::llama_options>;

/// The model that a text describes. Its rates of dropout are not taken over, since they do not change what a trained model
/// computes: dropout is 0. Errors: errc::unsupported, errc::corrupt.
CAUSEWAY_DECL result<model_options> read_config(std::string_view text, const std::string& where);

/// The same of a folder; errc::not_found if it has no config.json.
CAUSEWAY_DECL result<model_options> read_config_of(const std::string& folder);

/// The text for a model. `end_of_text` is the token that ends a text, if there is one; `type` what weights are stored as:
/// "float32", "float16" or "bfloat16".
CAUSEWAY_DECL [[nodiscard]] std::string config_text(const model_options& options, std::optional<std::int32_t> end_of_text,
                                                    std::string_view type = "float32");

/// Whether parameters of one compute the same in the other, whose context may be shorter, and whose output layer may be a
/// table of its own. The error names the option that differs.
CAUSEWAY_DECL result<void> check_same_model(const model_options& stored, const model_options& wanted);

}}}  // namespace causeway::CAUSEWAY_ABI::formats

#ifndef CAUSEWAY_COMPILED
#include <causeway/formats/impl/model_config.ipp>
#endif

#endif  // CAUSEWAY_FORMATS_MODEL_CONFIG_HPP
