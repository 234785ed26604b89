// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_NET_IMPL_CODEC_IPP
#define CAUSEWAY_NET_IMPL_CODEC_IPP

#include <causeway/net/codec.hpp>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace net {

CAUSEWAY_DECL std::vector<std::byte> byte_writer::take() && noexcept { return std::move(bytes_); }

CAUSEWAY_DECL byte_writer& byte_writer::put_bytes(std::span<const std::byte> blob) {
  CAUSEWAY_EXPECT(blob.size() <= UINT32_MAX);
  put(static_cast<std::uint32_t>(blob.size()));
  bytes_.insert(bytes_.end(), blob.begin(), blob.end());
  return *this;
}

CAUSEWAY_DECL std::span<const std::byte> byte_reader::get_bytes(std::size_t limit) noexcept {
  const auto length = get<std::uint32_t>();
  if (length > limit) return set_failed(state::over_limit), std::span<const std::byte>{};
  if (!require(length)) return {};
  const auto view = rest_.first(length);
  rest_ = rest_.subspan(length);
  return view;
}

CAUSEWAY_DECL std::string byte_reader::get_text(std::size_t limit) {
  const auto view = get_bytes(limit);
  std::string text;
  text.reserve(view.size());
  for (const std::byte b : view) {
    const auto c = static_cast<char>(b);
    text.push_back(c >= ' ' && c <= '~' ? c : '?');
  }
  return text;
}

CAUSEWAY_DECL result<void> byte_reader::finish(std::string_view what) const {
  if (state_ == state::over_limit) {
    return fail(errc::too_large, std::string{what}, "a length or kind in it is beyond its limit");
  }
  if (state_ == state::truncated) return fail(errc::corrupt, std::string{what}, "it ends in the middle of a value");
  if (!rest_.empty()) {
    return fail(errc::corrupt, std::string{what}, std::to_string(rest_.size()) + " bytes follow its end");
  }
  return {};
}

CAUSEWAY_DECL bool byte_reader::require(std::size_t n) noexcept {
  if (!ok()) return false;
  if (rest_.size() >= n) return true;
  set_failed(state::truncated);
  return false;
}

CAUSEWAY_DECL void byte_reader::set_failed(state why) noexcept {
  if (ok()) state_ = why;
  rest_ = {};
}

}}}  // namespace causeway::CAUSEWAY_ABI::net

#endif  // CAUSEWAY_NET_IMPL_CODEC_IPP
