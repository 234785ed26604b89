// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_COMM_MEETING_PLACES_HPP
#define CAUSEWAY_COMM_MEETING_PLACES_HPP

// Who meets whom in an exchange of comm::rounds, where a peer is not always one of those who are counted.

#include <causeway/net/transport.hpp>

#include <algorithm>
#include <cstdint>
#include <span>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace comm { namespace detail {

/// Those who meet in an exchange, by number: peers, or where rows are of single blocks whole replicas, so that all blocks
/// of one meet the same others, and have one lot.
template <class Context>
class meeting_places {
 public:
  explicit meeting_places(Context& ctx) : ctx_{ctx}, replicas_{ctx.entry().replicas} {}

  [[nodiscard]] net::peer_index self() const { return replicas_.empty() ? ctx_.self() : replicas_[ctx_.self()]; }
  [[nodiscard]] std::uint32_t count() const { return replicas_.empty() ? ctx_.peers() : replicas_.back() + 1; }
  [[nodiscard]] double share_of(net::peer_index place) const {
    const auto first = std::lower_bound(replicas_.begin(), replicas_.end(), place);
    return ctx_.share_of(replicas_.empty() ? place : static_cast<net::peer_index>(first - replicas_.begin()));
  }

 private:
  Context& ctx_;
  std::span<const std::uint32_t> replicas_;
};

}}}}  // namespace causeway::CAUSEWAY_ABI::comm::detail

#endif  // CAUSEWAY_COMM_MEETING_PLACES_HPP
