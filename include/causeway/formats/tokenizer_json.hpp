// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_FORMATS_TOKENIZER_JSON_HPP
#define CAUSEWAY_FORMATS_TOKENIZER_JSON_HPP

// Our tokenizers as tokenizer.json, the file of Hugging Face's tokenizers, and back. There the bytes of a text become
// letters first and are cut by a regular expression, which makes the pieces of data/pre_tokenizer.hpp: the same tokens for
// every UTF-8 text, but for one that spells out the end of text, which we never take for one. Tokenizers that cut text by
// other rules, such as GPT-2's own, are refused when they are read.

#include <causeway/core/result.hpp>
#include <causeway/data/bpe_tokenizer.hpp>

#include <optional>
#include <string>
#include <string_view>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace formats {

/// The text for a tokenizer. That of bytes is one without merges. errc::unsupported if two merges make the same bytes:
/// their tokens would have the same name.
CAUSEWAY_DECL result<std::string> tokenizer_text(const data::bpe_tokenizer& tokenizer);

/// What transformers wants beside it: tokenizer_config.json, for a model with this context.
[[nodiscard]] CAUSEWAY_DECL std::string tokenizer_config_text(const data::bpe_tokenizer& tokenizer, std::int64_t context);

/// The inverse of `tokenizer_text`. errc::unsupported for a tokenizer that gives other tokens than ours could.
CAUSEWAY_DECL result<data::bpe_tokenizer> read_tokenizer(std::string_view text, const std::string& where);

}}}  // namespace causeway::CAUSEWAY_ABI::formats

#ifndef CAUSEWAY_COMPILED
#include <causeway/formats/impl/tokenizer_json.ipp>
#endif

#endif  // CAUSEWAY_FORMATS_TOKENIZER_JSON_HPP
