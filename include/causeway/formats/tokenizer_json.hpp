// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_FORMATS_TOKENIZER_JSON_HPP
#define CAUSEWAY_FORMATS_TOKENIZER_JSON_HPP

// tokenizer.json, the file of Hugging Face's tokenizers, for byte-level BPE: our own tokenizers, GPT-2's and Llama 3's, and
// others that cut text by the same rules (data/pre_tokenizer.hpp). The same tokens for every UTF-8 text, but for special
// tokens: we never take them from a text that spells them, and never add any (what the file's post_processor does, such
// as Llama 3's begin of text). In our own the bytes of a text become letters first and are cut by a regular expression,
// which makes the pieces of data/pre_tokenizer.hpp. Tokenizers that cut text by other rules are refused when they are read.

#include <causeway/core/result.hpp>
#include <causeway/data/bpe_tokenizer.hpp>

#include <cstdint>
#include <string>
#include <string_view>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace formats {

/// The text for a tokenizer. That of bytes is one without merges. errc::unsupported if two merges make the same bytes:
/// their tokens would have the same name.
CAUSEWAY_DECL result<std::string> tokenizer_text(const data::bpe_tokenizer& tokenizer);

/// What transformers wants beside it: tokenizer_config.json, for a model with this context.
CAUSEWAY_DECL [[nodiscard]] std::string tokenizer_config_text(const data::bpe_tokenizer& tokenizer, std::int64_t context);

/// The inverse of `tokenizer_text`, and the files of others. errc::unsupported for a tokenizer that does what ours cannot:
/// the message names it.
CAUSEWAY_DECL result<data::bpe_tokenizer> read_tokenizer(std::string_view text, const std::string& where);

}}}  // namespace causeway::CAUSEWAY_ABI::formats

#ifndef CAUSEWAY_COMPILED
#include <causeway/formats/impl/tokenizer_json.ipp>
#endif

#endif  // CAUSEWAY_FORMATS_TOKENIZER_JSON_HPP
