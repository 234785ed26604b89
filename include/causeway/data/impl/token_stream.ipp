// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_DATA_IMPL_TOKEN_STREAM_IPP
#define CAUSEWAY_DATA_IMPL_TOKEN_STREAM_IPP

// Bodies of data/token_stream.hpp.

#include <causeway/data/token_stream.hpp>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace data {

CAUSEWAY_DECL token_stream::token_stream(std::shared_ptr<const void> owner, const std::byte* data, std::int64_t size,
                                         token_width width)
    : owner_{std::move(owner)}, data_{data}, size_{size}, width_{width} {}

CAUSEWAY_DECL token_stream::token_stream(std::span<const std::int32_t> tokens)
    : size_{static_cast<std::int64_t>(tokens.size())} {
  const bool narrow = std::all_of(tokens.begin(), tokens.end(), [](std::int32_t t) { return t >= 0 && t <= 0xFFFF; });
  width_ = narrow ? token_width::two : token_width::four;
  if (narrow) {
    own(std::vector<std::uint16_t>(tokens.begin(), tokens.end()));
  } else {
    own(std::vector<std::int32_t>(tokens.begin(), tokens.end()));
  }
}

CAUSEWAY_DECL void token_stream::read(std::int64_t first, std::span<std::int32_t> out) const noexcept {
  CAUSEWAY_EXPECT(first >= 0 && first + static_cast<std::int64_t>(out.size()) <= size_);
  if (width_ == token_width::two) {
    copy<std::uint16_t>(first, out);
  } else {
    copy<std::int32_t>(first, out);
  }
}

CAUSEWAY_DECL token_stream token_stream::slice(std::int64_t first, std::int64_t count) const {
  first = std::clamp<std::int64_t>(first, 0, size_);
  count = std::clamp<std::int64_t>(count, 0, size_ - first);
  return {owner_, data_ == nullptr ? nullptr : data_ + first * static_cast<std::int64_t>(width_), count, width_};
}

CAUSEWAY_DECL result<void> token_stream::check_vocabulary(std::int64_t vocabulary) const {
  std::vector<std::int32_t> part(4096);
  for (std::int64_t at = 0; at < size_; at += static_cast<std::int64_t>(part.size())) {
    part.resize(static_cast<std::size_t>(std::min<std::int64_t>(4096, size_ - at)));
    read(at, part);
    const auto bad = std::find_if(part.begin(), part.end(), [&](std::int32_t t) { return t < 0 || t >= vocabulary; });
    if (bad == part.end()) continue;
    return fail(errc::bad_text, "token " + std::to_string(at + (bad - part.begin())),
                "number " + std::to_string(static_cast<std::uint32_t>(*bad)) + " is outside the vocabulary of " +
                    std::to_string(vocabulary) + ". Use the tokenizer that made the tokens");
  }
  return {};
}

CAUSEWAY_DECL std::uint64_t token_stream::content_hash() const {
  std::vector<std::int32_t> part(4096);  // a multiple of the hash's stripe
  hasher h;
  for (std::int64_t at = 0; at < size_; at += 4096) {
    part.resize(static_cast<std::size_t>(std::min<std::int64_t>(4096, size_ - at)));
    read(at, part);
    h.add_values(std::span<const std::int32_t>{part});
  }
  return h.finish();
}

CAUSEWAY_DECL token_split split_fraction(const token_stream& tokens, double fraction) {
  CAUSEWAY_EXPECT(fraction >= 0.0 && fraction < 1.0);
  const auto last = static_cast<std::int64_t>(static_cast<double>(tokens.size()) * fraction);
  return {tokens.slice(0, tokens.size() - last), tokens.slice(tokens.size() - last, last)};
}

}}}  // namespace causeway::CAUSEWAY_ABI::data

#endif  // CAUSEWAY_DATA_IMPL_TOKEN_STREAM_IPP
