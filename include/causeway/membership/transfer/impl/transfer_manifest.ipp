// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_MEMBERSHIP_TRANSFER_IMPL_TRANSFER_MANIFEST_IPP
#define CAUSEWAY_MEMBERSHIP_TRANSFER_IMPL_TRANSFER_MANIFEST_IPP

// Bodies of membership/transfer/transfer_manifest.hpp.

#include <causeway/membership/transfer/transfer_manifest.hpp>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace membership {

CAUSEWAY_DECL manifest_assembler::manifest_assembler(const image_layout& local, std::uint64_t root)
    : local_{local}, root_{root} {}

CAUSEWAY_DECL void manifest_assembler::restart() {
  hashes_.clear();
  next_ = head_ ? 1 : 0;  // the head was found right by itself
}

CAUSEWAY_DECL auto manifest_assembler::take(std::span<const std::byte> content) -> outcome {
  const outcome how = next_ == 0 ? take_head(content) : take_hashes(content);
  if (how == outcome::bad) restart();
  return how;
}

CAUSEWAY_DECL auto manifest_assembler::take_head(std::span<const std::byte> content) -> outcome {
  auto head = decode_manifest_head(content);
  if (!head || head->root() != root_) return outcome::bad;
  head_ = std::move(head).value();
  if (head_->layout != local_) return outcome::foreign;
  next_ = 1;
  hashes_.reserve(local_.chunks());
  return check();
}

CAUSEWAY_DECL auto manifest_assembler::take_hashes(std::span<const std::byte> content) -> outcome {
  const std::size_t due = std::min(hashes_per_piece, local_.chunks() - hashes_.size());
  if (content.size() != due * sizeof(std::uint64_t)) return outcome::bad;
  net::byte_reader in{content};
  for (std::size_t i = 0; i < due; ++i) hashes_.push_back(in.get<std::uint64_t>());
  ++next_;
  return check();
}

CAUSEWAY_DECL auto manifest_assembler::check() const -> outcome {
  if (!complete()) return outcome::more;
  return digest_of(hashes_) == head_->digest ? outcome::complete : outcome::bad;
}

}}}  // namespace causeway::CAUSEWAY_ABI::membership

#endif  // CAUSEWAY_MEMBERSHIP_TRANSFER_IMPL_TRANSFER_MANIFEST_IPP
