// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PRESETS_ASYNCHRONOUS_HPP
#define CAUSEWAY_PRESETS_ASYNCHRONOUS_HPP

// Published systems in which peers do not wait for each other, as compositions; see presets/local_updates.hpp.

#include <causeway/axis/arrivals.hpp>
#include <causeway/axis/by_speed.hpp>
#include <causeway/axis/every.hpp>
#include <causeway/axis/fragments.hpp>
#include <causeway/axis/hubs.hpp>
#include <causeway/axis/landing.hpp>
#include <causeway/axis/outer.hpp>
#include <causeway/collective/norm_aggregators.hpp>
#include <causeway/comm/on_arrival.hpp>
#include <causeway/compress/none.hpp>
#include <causeway/net/transport.hpp>
#include <causeway/optim/delayed_nesterov.hpp>
#include <causeway/optim/nesterov.hpp>

#include <algorithm>
#include <cstdint>
#include <vector>

namespace causeway::inline CAUSEWAY_ABI::presets {

/// Async Local-SGD (Liu et al. 2024): delayed Nesterov on every push, fewer steps for slow peers. Set `peers` to the run's.
struct async_local_sgd_options {
  std::uint32_t peers = 10;  ///< N, the period of the momentum
  std::uint32_t local_steps = 50;
  double percentile = 0.9;  ///< of the speeds, sets the pace
  double grace_seconds = 0;
  float outer_learning_rate = 0.7F;
  float outer_momentum = 0.9F;
};
using async_local_sgd = comm::on_arrival<axis::by_speed, axis::one_by_one, axis::outer<optim::delayed_nesterov>>;
[[nodiscard]] inline async_local_sgd make(const async_local_sgd_options& o) {
  using outer = axis::outer<optim::delayed_nesterov>;
  return async_local_sgd{
      axis::by_speed{{.local_steps = o.local_steps, .percentile = o.percentile}}, axis::one_by_one{o.grace_seconds},
      outer{o.outer_learning_rate, optim::delayed_nesterov{{.momentum = o.outer_momentum, .period = o.peers}}}};
}

/// Decoupled DiLoCo (2026): fragments of equal size one after another, a quorum with an adaptive grace period, norms and
/// directions averaged apart, weights by samples, blended in τ steps later.
struct decoupled_diloco_options {
  std::uint32_t local_steps = 24;
  std::uint32_t fragments = 24;
  std::uint32_t least_peers = 1;    ///< K
  std::uint32_t overlap_steps = 2;  ///< τ
  float local_share = 0.5F;         ///< α
  double gamma = 0.5;
  double cap_seconds = 60;
  float outer_learning_rate = 0.7F;
  float outer_momentum = 0.9F;
};
using decoupled_diloco = comm::on_arrival<axis::staggered, axis::balanced, axis::quorum,
                                          axis::push<compress::none, collective::radial_directional>, axis::delayed,
                                          axis::outer<optim::nesterov>>;
[[nodiscard]] inline decoupled_diloco make(const decoupled_diloco_options& o) {
  return decoupled_diloco{
      axis::staggered{o.local_steps},
      axis::balanced{o.fragments},
      axis::quorum{.least = o.least_peers, .gamma = o.gamma, .cap_seconds = o.cap_seconds},
      axis::push<compress::none, collective::radial_directional>{},
      axis::delayed{o.overlap_steps, o.local_share},
      axis::outer<optim::nesterov>{o.outer_learning_rate, optim::nesterov{{.momentum = o.outer_momentum}}}};
}

/// HALoS (Kim et al. 2025): a hub in each region, and the first region's above them. Delayed Nesterov on both levels stands
/// for the paper's momentum, whose period is not the number of peers; its tuned constants belong to its own models.
struct halos_options {
  std::vector<std::vector<net::peer_index>> regions{{0}};  ///< the hub of each first
  std::uint32_t local_steps = 32;                          ///< H
  std::uint32_t pushes = 8;                                ///< K, to a region's hub before it pushes up
  float global_share = 0.25F;                              ///< of the global parameters, when they come back
  float regional_learning_rate = 0.7F;
  float global_learning_rate = 0.7F;
  float momentum = 0.9F;
};
using halos = comm::on_arrival<axis::every, axis::regions<>, axis::outer<optim::delayed_nesterov>>;
[[nodiscard]] inline halos make(const halos_options& o) {
  using outer = axis::outer<optim::delayed_nesterov>;
  std::uint32_t largest = 1;
  for (const auto& region : o.regions) largest = std::max(largest, static_cast<std::uint32_t>(region.size()));
  const auto hubs = std::max(1U, static_cast<std::uint32_t>(o.regions.size()));
  const outer upper{o.global_learning_rate, optim::delayed_nesterov{{.momentum = o.momentum, .period = hubs}}};
  const outer lower{o.regional_learning_rate, optim::delayed_nesterov{{.momentum = o.momentum, .period = largest}}};
  return halos{axis::every{o.local_steps},
               axis::regions<>{.members = o.regions, .pushes = o.pushes, .upper_share = o.global_share, .upper = upper},
               lower};
}

}  // namespace causeway::inline CAUSEWAY_ABI::presets

#endif  // CAUSEWAY_PRESETS_ASYNCHRONOUS_HPP
