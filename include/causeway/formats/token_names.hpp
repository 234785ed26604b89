// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_FORMATS_TOKEN_NAMES_HPP
#define CAUSEWAY_FORMATS_TOKEN_NAMES_HPP

// A tokenizer as other programs store it: tokens by name, merges as pairs of names. The name of a token is the letters of
// its bytes, that of a special token is its own. Every token has another name, or there are none.

#include <causeway/core/result.hpp>
#include <causeway/data/bpe_tokenizer.hpp>

#include <string>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace formats {

struct token_names {
  std::vector<std::string> tokens;  ///< by number; empty where there is no such token
  std::vector<std::string> merges;  ///< "left right", the first one that fits is applied first
};

/// The names of a tokenizer; that of bytes has no merges. errc::unsupported if two tokens have the same name: `where`, the
/// file that is to be written, cannot hold such a tokenizer.
CAUSEWAY_DECL result<token_names> names_of(const data::bpe_tokenizer& tokenizer, const std::string& where);

}}}  // namespace causeway::CAUSEWAY_ABI::formats

#ifndef CAUSEWAY_COMPILED
#include <causeway/formats/impl/token_names.ipp>
#endif

#endif  // CAUSEWAY_FORMATS_TOKEN_NAMES_HPP
