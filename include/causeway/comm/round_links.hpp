// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_COMM_ROUND_LINKS_HPP
#define CAUSEWAY_COMM_ROUND_LINKS_HPP

// What links cost, as the peers of comm::rounds measure them together while a run goes on, and the trees and groups that
// follow it; and what waits for this peer's lines, of all fragments.

#include <causeway/axis/groups.hpp>
#include <causeway/collective/channels.hpp>
#include <causeway/collective/link_times.hpp>
#include <causeway/collective/ring_order.hpp>
#include <causeway/collective/tree_relays.hpp>
#include <causeway/core/result.hpp>
#include <causeway/net/transport.hpp>

#include <cstdint>
#include <memory>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace comm { namespace detail {

template <class Recipe, class Group>
class round_links {
 public:
  /// Whether trees or groups follow what links cost, as measured by all peers at once.
  static constexpr bool measured = requires(const Recipe& r) { r.links; }
  || requires(const Group& g) { g.links; };

  /// Where peers come and go, nothing may be said of them by number.
  static result<void> check(auto& ctx, const Recipe& recipe, const Group& group) {
    if (ctx.numbered_peers() > 0) return {};
    CAUSEWAY_TRY(axis::refuse_numbers("links", probe(recipe, group).every > 0));
    if constexpr (requires { recipe.options.shares; }) {
      CAUSEWAY_TRY(axis::refuse_numbers("shares", !recipe.options.shares.empty()));
    }
    if constexpr (requires { recipe.regions; }) {
      CAUSEWAY_TRY(axis::refuse_numbers("regions", !recipe.regions.empty()));
    }
    return {};
  }

  /// Before the exchanges with the number of s: what links cost, if that is to be measured again, and what follows from it.
  result<void> plan(auto& ctx, const Recipe& recipe, const Group& group, auto& s) {
    const collective::link_probe p = probe(recipe, group);
    if (p.every > 0 && s.part == 0 && s.number % p.every == 0 && at_ != s.number + 1) {
      const net::message_id id{.channel = collective::channels::links, .step = s.number};
      CAUSEWAY_TRY(collective::measure_links(ctx.transport(), ctx.clock(), id, ctx.exchange_options(), p.bytes, costs_));
      at_ = s.number + 1;
    }
    if constexpr (Group::everybody && requires { recipe.plan(collective::link_costs{}, s.part); }) {
      if (s.planned_at != at_) s.exchange->follow(recipe.plan({costs_, ctx.peers()}, s.part), costs_);
      s.planned_at = at_;
    }
    if constexpr (requires { s.exchange->share(queues_); }) {
      if (!queues_) queues_ = std::make_shared<collective::line_queues>();
      s.exchange->share(queues_);
    }
    return {};
  }

  /// Seconds per byte of each link, equal on all peers; none: not measured.
  [[nodiscard]] const std::vector<double>& costs() const noexcept { return costs_; }

  void serialize(auto& ar) { ar(costs_, at_); }

 private:
  static collective::link_probe probe(const Recipe& recipe, const Group& group) {
    collective::link_probe p;
    if constexpr (requires { recipe.links; }) p = recipe.links;
    if constexpr (requires { group.links; }) p = p.every > 0 ? p : group.links;
    return p;
  }

  std::vector<double> costs_;
  std::uint64_t at_ = 0;                             ///< the exchange before which they were measured, and one
  std::shared_ptr<collective::line_queues> queues_;  ///< of all fragments
};

}}}}  // namespace causeway::CAUSEWAY_ABI::comm::detail

#endif  // CAUSEWAY_COMM_ROUND_LINKS_HPP
