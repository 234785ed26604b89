// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_EXAMPLES_EXPORT_RUN_HPP
#define CAUSEWAY_EXAMPLES_EXPORT_RUN_HPP

// `causeway export`: a trained model as Hugging Face's transformers or llama.cpp reads it.

#include <causeway/core/result.hpp>

#include <string>

#include "settings.hpp"
#include "text_codec.hpp"

namespace app {

/// Gathers the run's model and writes it to `path`: a folder, with the tokenizer if that can be written, or one file of
/// GGUF with both. Says what it wrote.
causeway::result<int> export_run(const settings& s, text_codec& codec, const std::string& path);

}  // namespace app

#endif  // CAUSEWAY_EXAMPLES_EXPORT_RUN_HPP
