// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_FORMATS_TOKENIZER_FOLDER_HPP
#define CAUSEWAY_FORMATS_TOKENIZER_FOLDER_HPP

// The tokenizer in the folder of a stored model, whichever of its usual files is there.

#include <causeway/core/result.hpp>
#include <causeway/data/bpe_tokenizer.hpp>

#include <string>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace formats {

/// Reads tokenizer.json; without it vocab.json and merges.txt, as GPT-2's tokenizer, if the model is a gpt2 or
/// tokenizer_config.json says so; without them tokenizer.model, as Llama 3's. errc::not_found if none is there.
CAUSEWAY_DECL result<data::bpe_tokenizer> read_tokenizer_of(const std::string& folder);

}}}  // namespace causeway::CAUSEWAY_ABI::formats

#ifndef CAUSEWAY_COMPILED
#include <causeway/formats/impl/tokenizer_folder.ipp>
#endif

#endif  // CAUSEWAY_FORMATS_TOKENIZER_FOLDER_HPP
