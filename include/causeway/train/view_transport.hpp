// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TRAIN_VIEW_TRANSPORT_HPP
#define CAUSEWAY_TRAIN_VIEW_TRANSPORT_HPP

// The peers of one attempt at a round as a Transport that remembers who kept it waiting: when the exchange fails, the
// membership asks it whom to suspect.

#include <causeway/core/clock.hpp>
#include <causeway/core/result.hpp>
#include <causeway/net/link_transport.hpp>
#include <causeway/net/transport.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace causeway::inline CAUSEWAY_ABI::detail {

/// Ranks whose messages did not come or were not taken, oldest first.
struct suspicion {
  std::vector<net::peer_index> ranks;

  void add(net::peer_index rank) {
    if (std::find(ranks.begin(), ranks.end(), rank) == ranks.end()) ranks.push_back(rank);
  }
};

/// Models Transport. Threading: as net::link_transport.
class view_transport {
 public:
  view_transport(net::link_transport links, std::shared_ptr<suspicion> suspects)
      : links_{std::move(links)}, suspects_{std::move(suspects)} {}

  [[nodiscard]] net::peer_index self() const noexcept { return links_.self(); }
  [[nodiscard]] std::uint32_t size() const noexcept { return links_.size(); }

  net::operation send(net::peer_index to, const net::message_id& id, std::span<const std::byte> bytes) {
    return remember(links_.send(to, id, bytes), to);
  }
  net::operation receive(net::peer_index from, const net::message_id& id, std::span<std::byte> buffer) {
    return remember(links_.receive(from, id, buffer), from);
  }

  result<std::size_t> wait(net::operation op, time_point deadline) {
    const auto found = std::find_if(open_.begin(), open_.end(), [&](const auto& o) { return o.first == op; });
    const net::peer_index peer = found == open_.end() ? self() : found->second;
    if (found != open_.end()) {
      *found = open_.back();
      open_.pop_back();
    }
    auto outcome = links_.wait(op, deadline);
    if (!outcome && peer != self()) suspect(peer, outcome.error().code, deadline);
    return outcome;
  }

  [[nodiscard]] bool done(net::operation op) const { return links_.done(op); }
  [[nodiscard]] traffic stats() const { return links_.stats(); }

 private:
  net::operation remember(net::operation op, net::peer_index peer) {
    open_.emplace_back(op, peer);
    return op;
  }

  // After the first failure a collective cancels what is left with a deadline in the past: that says nothing about anybody.
  void suspect(net::peer_index peer, errc code, time_point deadline) {
    const bool overdue = code == errc::timeout && deadline != time_point{};
    const bool wrong = code == errc::protocol || code == errc::wrong_parent || code == errc::too_large;
    if (code == errc::peer_lost || overdue || wrong) suspects_->add(peer);
  }

  net::link_transport links_;
  std::shared_ptr<suspicion> suspects_;
  std::vector<std::pair<net::operation, net::peer_index>> open_;
};
static_assert(net::Transport<view_transport>);

}  // namespace causeway::inline CAUSEWAY_ABI::detail

#endif  // CAUSEWAY_TRAIN_VIEW_TRANSPORT_HPP
