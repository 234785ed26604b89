// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_MEMBERSHIP_TRANSFER_TRANSFER_MANIFEST_HPP
#define CAUSEWAY_MEMBERSHIP_TRANSFER_TRANSFER_MANIFEST_HPP

// Puts a manifest together, piece by piece from one holder, and believes it only when it gives the wanted root. Allocates
// by the layout of the state here, never by what a message claims.

#include <causeway/core/result.hpp>
#include <causeway/membership/state_image.hpp>
#include <causeway/membership/transfer/transfer_wire.hpp>
#include <causeway/net/codec.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace membership {

class manifest_assembler {
 public:
  enum class outcome : std::uint8_t {
    more,      ///< ask for next_piece()
    complete,  ///< hashes() are those of the wanted state
    bad,       ///< a piece that belongs to no manifest of this root; begins anew
    foreign,   ///< the wanted state has another layout than the one here: see foreign_layout
  };

  manifest_assembler() = default;
  CAUSEWAY_DECL manifest_assembler(const image_layout& local, std::uint64_t root);

  [[nodiscard]] bool complete() const noexcept { return head_ && next_ == pieces(); }
  [[nodiscard]] std::uint64_t next_piece() const noexcept { return next_; }
  /// Pieces below this one may be asked for: the next two, so that a small manifest costs one trip there and back.
  [[nodiscard]] std::uint64_t ask_before() const noexcept { return std::min(next_ + 2, pieces()); }
  [[nodiscard]] const std::vector<std::uint64_t>& hashes() const noexcept { return hashes_; }
  /// errc::wrong_model with both layouts.
  [[nodiscard]] result<void> foreign_layout() const { return check_layout(local_, head_->layout); }

  /// Another holder is asked now: pieces of different holders are never mixed, so that it is clear who sent a wrong one.
  CAUSEWAY_DECL void restart();

  /// Piece next_piece().
  CAUSEWAY_DECL outcome take(std::span<const std::byte> content);

 private:
  [[nodiscard]] std::uint64_t pieces() const noexcept { return manifest_pieces(local_.chunks()); }

  CAUSEWAY_DECL outcome take_head(std::span<const std::byte> content);

  CAUSEWAY_DECL outcome take_hashes(std::span<const std::byte> content);

  CAUSEWAY_DECL [[nodiscard]] outcome check() const;

  image_layout local_;
  std::uint64_t root_ = 0;
  std::optional<manifest_head> head_;
  std::vector<std::uint64_t> hashes_;
  std::uint64_t next_ = 0;
};

}}}  // namespace causeway::CAUSEWAY_ABI::membership

#ifndef CAUSEWAY_COMPILED
#include <causeway/membership/transfer/impl/transfer_manifest.ipp>
#endif

#endif  // CAUSEWAY_MEMBERSHIP_TRANSFER_TRANSFER_MANIFEST_HPP
