// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_DATA_IMPL_TOKEN_STREAM_IPP
#define CAUSEWAY_DATA_IMPL_TOKEN_STREAM_IPP

#include <causeway/data/token_stream.hpp>

#include <algorithm>
#include <cstring>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace data {

CAUSEWAY_DECL token_stream::token_stream(std::shared_ptr<const void> owner, const std::byte* data, std::int64_t size,
                                         token_width width) {
  hold({{std::move(owner), data, 0, size, width}});
}

CAUSEWAY_DECL token_stream::token_stream(std::span<const std::int32_t> tokens) {
  const auto own = [&](auto stored, token_width width) {
    auto shared = std::make_shared<const decltype(stored)>(std::move(stored));
    const std::byte* const data = std::as_bytes(std::span{*shared}).data();
    hold({{std::move(shared), data, 0, static_cast<std::int64_t>(tokens.size()), width}});
  };
  const bool narrow = std::all_of(tokens.begin(), tokens.end(), [](std::int32_t t) { return t >= 0 && t <= 0xFFFF; });
  if (narrow) {
    own(std::vector<std::uint16_t>(tokens.begin(), tokens.end()), token_width::two);
  } else {
    own(std::vector<std::int32_t>(tokens.begin(), tokens.end()), token_width::four);
  }
}

CAUSEWAY_DECL token_stream token_stream::joined(std::span<const token_stream> parts) {
  std::vector<piece> pieces;
  for (const token_stream& part : parts) {
    const std::int64_t end = part.first_ + part.size_;
    for (auto at = part.piece_with(part.first_); part.size_ > 0 && at != part.pieces_->end() && at->begin < end; ++at) {
      const std::int64_t first = std::max(part.first_, at->begin);
      const std::int64_t size = std::min(end, at->begin + at->size) - first;
      pieces.push_back(
          {at->owner, at->data + (first - at->begin) * static_cast<std::int64_t>(at->width), 0, size, at->width});
    }
  }
  token_stream all;
  all.hold(std::move(pieces));
  return all;
}

CAUSEWAY_DECL void token_stream::hold(std::vector<piece> pieces) {
  std::erase_if(pieces, [](const piece& p) { return p.size == 0; });
  for (piece& p : pieces) {
    p.begin = size_;
    size_ += p.size;
  }
  pieces_ = std::make_shared<const std::vector<piece>>(std::move(pieces));
}

CAUSEWAY_DECL auto token_stream::piece_with(std::int64_t token) const noexcept -> std::vector<piece>::const_iterator {
  if (pieces_ == nullptr) return {};
  const auto after = [](std::int64_t t, const piece& p) { return t < p.begin; };
  const auto next = std::upper_bound(pieces_->begin(), pieces_->end(), token, after);
  return next == pieces_->begin() ? next : next - 1;
}

CAUSEWAY_DECL void token_stream::piece::read(std::int64_t from, std::span<std::int32_t> out) const noexcept {
  const auto copy = [&](auto token) {
    for (std::size_t i = 0; i < out.size(); ++i) {
      std::memcpy(&token, data + (static_cast<std::size_t>(from) + i) * sizeof token, sizeof token);
      out[i] = static_cast<std::int32_t>(token);
    }
  };
  width == token_width::two ? copy(std::uint16_t{}) : copy(std::int32_t{});
}

CAUSEWAY_DECL void token_stream::read(std::int64_t first, std::span<std::int32_t> out) const noexcept {
  CAUSEWAY_EXPECT(first >= 0 && first + static_cast<std::int64_t>(out.size()) <= size_);
  first += first_;
  for (auto at = piece_with(first); !out.empty(); ++at) {
    const auto left = static_cast<std::size_t>(at->begin + at->size - first);
    const auto count = std::min(left, out.size());
    at->read(first - at->begin, out.first(count));
    out = out.subspan(count);
    first += static_cast<std::int64_t>(count);
  }
}

CAUSEWAY_DECL token_stream token_stream::slice(std::int64_t first, std::int64_t count) const {
  token_stream part = *this;
  first = std::clamp<std::int64_t>(first, 0, size_);
  part.first_ += first;
  part.size_ = std::clamp<std::int64_t>(count, 0, size_ - first);
  return part;
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
