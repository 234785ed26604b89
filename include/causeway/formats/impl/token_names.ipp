// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_FORMATS_IMPL_TOKEN_NAMES_IPP
#define CAUSEWAY_FORMATS_IMPL_TOKEN_NAMES_IPP

// Bodies of formats/token_names.hpp.

#include <causeway/formats/token_names.hpp>

#include <causeway/formats/byte_letters.hpp>

#include <cstddef>
#include <set>
#include <string_view>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace formats {

CAUSEWAY_DECL result<token_names> names_of(const data::bpe_tokenizer& tokenizer, const std::string& where) {
  token_names names;
  for (const std::string& bytes : tokenizer.table().tokens) names.tokens.push_back(letters_of(bytes));
  for (const data::special_token& s : tokenizer.table().specials) {
    names.tokens[static_cast<std::size_t>(s.token)] = s.name;
  }
  std::set<std::string_view> seen;
  for (std::size_t i = 0; i < names.tokens.size(); ++i) {
    if (names.tokens[i].empty() || seen.insert(names.tokens[i]).second) continue;
    return fail(errc::unsupported, where,
                "token " + std::to_string(i) +
                    " has the same bytes as one before it, and this format knows tokens by their "
                    "bytes; the model can be used without it");
  }
  for (const data::bpe_merge& m : tokenizer.all_merges()) {
    names.merges.push_back(names.tokens[static_cast<std::size_t>(m.left)] + " " +
                           names.tokens[static_cast<std::size_t>(m.right)]);
  }
  return names;
}

}}}  // namespace causeway::CAUSEWAY_ABI::formats

#endif  // CAUSEWAY_FORMATS_IMPL_TOKEN_NAMES_IPP
