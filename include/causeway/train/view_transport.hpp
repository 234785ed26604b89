// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TRAIN_VIEW_TRANSPORT_HPP
#define CAUSEWAY_TRAIN_VIEW_TRANSPORT_HPP

// The peers of one attempt at a round as a Transport that remembers who kept it waiting: when the exchange fails, the
// membership asks it whom to suspect.

#include <causeway/core/clock.hpp>
#include <causeway/core/result.hpp>
#include <causeway/net/link_transport.hpp>
#include <causeway/net/transport.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace detail {

/// Ranks whose messages did not come or were not taken, oldest first.
struct suspicion {
  std::vector<net::peer_index> ranks;

  CAUSEWAY_DECL void add(net::peer_index rank);
};

/// Models Transport. Threading: as net::link_transport.
class view_transport {
 public:
  CAUSEWAY_DECL view_transport(net::link_transport links, std::shared_ptr<suspicion> suspects);

  [[nodiscard]] net::peer_index self() const noexcept { return links_.self(); }
  [[nodiscard]] std::uint32_t size() const noexcept { return links_.size(); }

  CAUSEWAY_DECL net::operation send(net::peer_index to, const net::message_id& id, std::span<const std::byte> bytes);
  CAUSEWAY_DECL net::operation receive(net::peer_index from, const net::message_id& id, std::span<std::byte> buffer);

  CAUSEWAY_DECL result<std::size_t> wait(net::operation op, time_point deadline);

  [[nodiscard]] bool done(net::operation op) const { return links_.done(op); }
  bool wait_any(std::span<const net::operation> ops, time_point deadline) { return links_.wait_any(ops, deadline); }
  [[nodiscard]] traffic stats() const { return links_.stats(); }

 private:
  CAUSEWAY_DECL net::operation remember(net::operation op, net::peer_index peer);

  // After the first failure a collective cancels what is left with a deadline in the past: that says nothing about anybody.
  CAUSEWAY_DECL void suspect(net::peer_index peer, errc code, time_point deadline);

  net::link_transport links_;
  std::shared_ptr<suspicion> suspects_;
  std::vector<std::pair<net::operation, net::peer_index>> open_;
};
static_assert(net::Transport<view_transport>);

}}}  // namespace causeway::CAUSEWAY_ABI::detail

#ifndef CAUSEWAY_COMPILED
#include <causeway/train/impl/view_transport.ipp>
#endif

#endif  // CAUSEWAY_TRAIN_VIEW_TRANSPORT_HPP
