// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_NET_LINK_TRANSPORT_HPP
#define CAUSEWAY_NET_LINK_TRANSPORT_HPP

// Some links of a fabric as a Transport: the peers of one view, ranked 0 to size-1, as collectives want them. Every message
// carries the epoch of the view, whatever epoch the caller wrote, so that nothing of an earlier view is taken for ours.

#include <causeway/config/config.hpp>
#include <causeway/core/clock.hpp>
#include <causeway/core/metrics.hpp>
#include <causeway/core/result.hpp>
#include <causeway/net/fabric.hpp>
#include <causeway/net/transport.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace net {

/// Models Transport. Threading: as the fabric's `send`, `receive` and `wait`, from the trainer's thread alone. Operations
/// that are still open when it goes away belong to the fabric, as their buffers do: end them with fabric::cancel_before.
/// Errors name the fabric's peer, not the rank: a peer's name outlives the view.
class link_transport {
 public:
  /// `link_of_rank[r]` is the link of rank r; the entry of `self_rank` is never looked at.
  CAUSEWAY_DECL link_transport(std::shared_ptr<fabric> over, std::vector<peer_index> link_of_rank, peer_index self_rank,
                               std::uint32_t epoch);

  [[nodiscard]] peer_index self() const noexcept { return self_; }
  [[nodiscard]] std::uint32_t size() const noexcept { return static_cast<std::uint32_t>(links_.size()); }

  CAUSEWAY_DECL operation send(peer_index to, const message_id& id, std::span<const std::byte> bytes);

  CAUSEWAY_DECL operation receive(peer_index from, const message_id& id, std::span<std::byte> buffer);

  CAUSEWAY_DECL result<std::size_t> wait(operation op, time_point deadline);

  [[nodiscard]] bool done(operation op) const { return op == no_operation || fabric_->done(op); }
  CAUSEWAY_DECL bool wait_any(std::span<const operation> ops, time_point deadline);

  /// Of the whole fabric: control messages and other views count too.
  [[nodiscard]] traffic stats() const { return fabric_->stats(); }

 private:
  static constexpr operation no_operation = 0;

  [[nodiscard]] bool is_other(peer_index rank) const noexcept { return rank < links_.size() && rank != self_; }

  CAUSEWAY_DECL [[nodiscard]] message_id of_this_view(message_id id) const noexcept;

  std::shared_ptr<fabric> fabric_;
  std::vector<peer_index> links_;
  peer_index self_;
  std::uint32_t epoch_;
};
static_assert(Transport<link_transport>);

}}}  // namespace causeway::CAUSEWAY_ABI::net

#ifndef CAUSEWAY_COMPILED
#include <causeway/net/impl/link_transport.ipp>
#endif

#endif  // CAUSEWAY_NET_LINK_TRANSPORT_HPP
