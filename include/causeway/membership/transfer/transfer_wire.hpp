// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_MEMBERSHIP_TRANSFER_TRANSFER_WIRE_HPP
#define CAUSEWAY_MEMBERSHIP_TRANSFER_TRANSFER_WIRE_HPP

// The messages of a state transfer, as control messages of a fabric; their first byte is 0x80 to 0x8F. Every answer with
// content has a ticket, which the receiver gives back: so the sender knows what has arrived, and sends no more than fits.

#include <causeway/core/result.hpp>
#include <causeway/membership/state_image.hpp>
#include <causeway/net/codec.hpp>
#include <causeway/net/fabric.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace membership {

/// Which state: the round it was committed in, and its root.
struct state_name {
  std::uint64_t round = 0;
  std::uint64_t root = 0;

  friend bool operator==(const state_name&, const state_name&) = default;
};

enum class transfer_kind : std::uint8_t {
  ask_manifest = 0x80,  ///< what, index: piece 0 is the layout, piece n > 0 the n-th run of chunk hashes
  manifest = 0x81,      ///< what, index, ticket, content
  ask_chunk = 0x82,     ///< what, index
  chunk = 0x83,         ///< what, index, ticket, content
  gone = 0x84,          ///< what, newest: the sender does not have it; the newest round that it offered
  receipt = 0x85,       ///< ticket: this and what was sent before it has arrived
  cancel = 0x86,        ///< what, index: no longer wanted; every_index: nothing of it is
  keep = 0x87,      ///< what, index: it is being fetched, keep it, and the means of rounds from `index` on; every_index: no
                    ///< longer needed
  means = 0x88,     ///< what, content: it is kept; the rounds since, (round, root of its mean)
  ask_time = 0x89,  ///< newest, index: transfer_need's `takes` and `worth`, in nanoseconds
  time_given = 0x8A,    ///< newest: nanoseconds that it is held back for
  packed_chunk = 0x8B,  ///< as chunk; the content as net/float_packing.hpp makes it
};

/// Whether a control message belongs to the state transfer.
CAUSEWAY_DECL [[nodiscard]] bool is_transfer_message(std::span<const std::byte> message) noexcept;

inline constexpr std::uint64_t every_index = ~std::uint64_t{0};
/// Set in the round of a state_name that is not a state but the mean that a round exchanged.
inline constexpr std::uint64_t mean_bit = std::uint64_t{1} << 63U;
/// Chunk hashes in one piece of a manifest: 256 KiB of them.
inline constexpr std::size_t hashes_per_piece = 32768;
/// What a message may have beside its content.
inline constexpr std::size_t transfer_overhead = 64;

/// One message; which fields count, `kind` says. `content` is a view into the bytes that were decoded.
struct transfer_message {
  transfer_kind kind = transfer_kind::receipt;
  state_name what{};
  std::uint64_t index = 0;
  std::uint64_t ticket = 0;
  std::uint64_t newest = 0;
  std::span<const std::byte> content{};
};

namespace detail {

// Content is the last field and ends with the message, so that it can be made in place.
struct transfer_fields {
  bool what, index, ticket, newest, content;
};

constexpr transfer_fields fields_of(transfer_kind kind) noexcept {
  switch (kind) {
    case transfer_kind::ask_manifest:
    case transfer_kind::ask_chunk:
    case transfer_kind::cancel: return {true, true, false, false, false};
    case transfer_kind::manifest:
    case transfer_kind::chunk:
    case transfer_kind::packed_chunk: return {true, true, true, false, true};
    case transfer_kind::gone: return {true, false, false, true, false};
    case transfer_kind::receipt: return {false, false, true, false, false};
    case transfer_kind::keep: return {true, true, false, false, false};
    case transfer_kind::means: return {true, false, false, false, true};
    case transfer_kind::ask_time: return {false, true, false, true, false};
    case transfer_kind::time_given: return {false, false, false, true, false};
  }
  return {};
}

}  // namespace detail

/// The bytes of a message but for its content, and room for `content` bytes behind them.
CAUSEWAY_DECL [[nodiscard]] std::vector<std::byte> encode_transfer_head(const transfer_message& m, std::size_t content = 0);

CAUSEWAY_DECL [[nodiscard]] std::vector<std::byte> encode(const transfer_message& m);

/// errc::corrupt or errc::too_large for bytes that are no message. Allocates nothing.
CAUSEWAY_DECL [[nodiscard]] result<transfer_message> decode_transfer(std::span<const std::byte> bytes);

/// The first piece of a manifest: all that the root is made of.
struct manifest_head {
  image_layout layout;
  std::uint64_t digest = 0;

  [[nodiscard]] std::uint64_t root() const noexcept { return state_root(layout, digest); }
};

CAUSEWAY_DECL [[nodiscard]] std::vector<std::byte> encode(const manifest_head& head);

CAUSEWAY_DECL [[nodiscard]] result<manifest_head> decode_manifest_head(std::span<const std::byte> bytes);

/// Piece `index` > 0 of a manifest.
CAUSEWAY_DECL [[nodiscard]] std::vector<std::byte> encode_hashes(std::span<const std::uint64_t> all, std::uint64_t index);

/// Pieces of a manifest of so many chunks, the head counted.
[[nodiscard]] constexpr std::uint64_t manifest_pieces(std::size_t chunks) noexcept {
  return 1 + (chunks + hashes_per_piece - 1) / hashes_per_piece;
}

static_assert(default_chunk_bytes + transfer_overhead <= net::max_post_bytes);
static_assert(8 * hashes_per_piece + transfer_overhead <= net::max_post_bytes);
static_assert(8 * max_state_parts + transfer_overhead <= net::max_post_bytes);

// Puts a manifest together, piece by piece from one holder, and believes it only when it gives the wanted root. Allocates
// by the layout of the state here, never by what a message claims.

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
#include <causeway/membership/transfer/impl/transfer_wire.ipp>
#endif

#endif  // CAUSEWAY_MEMBERSHIP_TRANSFER_TRANSFER_WIRE_HPP
