// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_EXAMPLES_EXPORT_RUN_HPP
#define CAUSEWAY_EXAMPLES_EXPORT_RUN_HPP

// `causeway export DIR`: a trained model as Hugging Face's transformers reads it.

#include <causeway/core/result.hpp>

#include <string>

#include "settings.hpp"
#include "text_codec.hpp"

namespace app {

/// Gathers the run's model and writes it to `folder`, with its tokenizer if that can be written. Says what it wrote.
causeway::result<int> export_run(const settings& s, text_codec& codec, const std::string& folder);

}  // namespace app

#endif  // CAUSEWAY_EXAMPLES_EXPORT_RUN_HPP
