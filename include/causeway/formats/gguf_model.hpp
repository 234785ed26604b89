// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_FORMATS_GGUF_MODEL_HPP
#define CAUSEWAY_FORMATS_GGUF_MODEL_HPP

// A model and its tokenizer in one GGUF file, as llama.cpp and the programs around it load it: GPT-2 and Llama.
//
// llama.cpp knows which rules cut text by their name. GPT-2's and Llama 3's are there; our own is not, and is written as
// GPT-2's: texts of ASCII, and of letters beyond, have the same tokens there, unless a word is longer than 64 bytes. Other
// signs beyond ASCII, such as curly quotes, are letters to our rule and none to GPT-2's, so that text around them may be
// cut into other tokens of the same model. What the model says is the same text in any case.

#include <causeway/core/result.hpp>
#include <causeway/data/bpe_tokenizer.hpp>
#include <causeway/formats/gguf.hpp>
#include <causeway/formats/model_config.hpp>
#include <causeway/tensor/parameters.hpp>

#include <string>
#include <string_view>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace formats {

struct gguf_options {
  gguf_type type = gguf_type::f32;  ///< of matrices; vectors and positions are f32, and rows that q8_0 does not fit f16
  std::string name = "causeway";    ///< what the model is called
};

/// What llama.cpp calls a tensor of transformers: "blk.0.attn_norm.weight" for "transformer.h.0.ln_1.weight".
CAUSEWAY_DECL [[nodiscard]] std::string gguf_name(std::string_view theirs);

/// Writes one file, atomically. The parameters must be a whole model's. errc::unsupported for a tokenizer that the format
/// cannot hold, or that does what llama.cpp does not; errc::invalid_argument as `gguf_bytes`.
CAUSEWAY_DECL result<void> save_gguf(const std::string& path, const model_options& options, parameter_store& parameters,
                                     const data::bpe_tokenizer& tokenizer, const gguf_options& save = {});

}}}  // namespace causeway::CAUSEWAY_ABI::formats

#ifndef CAUSEWAY_COMPILED
#include <causeway/formats/impl/gguf_model.ipp>
#endif

#endif  // CAUSEWAY_FORMATS_GGUF_MODEL_HPP
