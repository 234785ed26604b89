// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_DATA_IMPL_TOKENIZER_IPP
#define CAUSEWAY_DATA_IMPL_TOKENIZER_IPP

#include <causeway/data/tokenizer.hpp>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace data {

CAUSEWAY_DECL std::optional<std::int32_t> byte_tokenizer::end_of_text() const noexcept {
  return with_end_ ? std::optional<std::int32_t>{256} : std::nullopt;
}

CAUSEWAY_DECL void byte_tokenizer::encode(std::string_view text, std::vector<std::int32_t>& out) const {
  out.reserve(out.size() + text.size());
  for (const char c : text) out.push_back(static_cast<unsigned char>(c));
}

CAUSEWAY_DECL result<void> byte_tokenizer::decode(std::span<const std::int32_t> tokens, std::string& out) const {
  for (const std::int32_t token : tokens) {
    if (token < 0 || token >= vocabulary()) {
      return fail(errc::invalid_argument, "token " + std::to_string(token),
                  "outside the vocabulary of " + std::to_string(vocabulary()) + ". Use the tokenizer that made it");
    }
    if (token < 256) out += static_cast<char>(token);
  }
  return {};
}

}}}  // namespace causeway::CAUSEWAY_ABI::data

#endif  // CAUSEWAY_DATA_IMPL_TOKENIZER_IPP
