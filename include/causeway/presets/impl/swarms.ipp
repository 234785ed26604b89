// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PRESETS_IMPL_SWARMS_IPP
#define CAUSEWAY_PRESETS_IMPL_SWARMS_IPP

#include <causeway/presets/swarms.hpp>

#include <causeway/parallel/swarm/swarm_peer.hpp>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace presets {

namespace detail {

/// Without a fabric there is no peer, and the policy says so when it starts.
template <class Swarm>
[[nodiscard]] Swarm swarm_of(const std::shared_ptr<net::fabric>& fabric, const parallel::swarm_options& peer,
                             stage::routing::any_router router, const log_sink& log) {
  if (!fabric) return Swarm{};
  return Swarm{std::make_shared<parallel::swarm_peer>(fabric, peer, std::move(router), log)};
}

}  // namespace detail

CAUSEWAY_DECL swarm make(const swarm_options& o) {
  return detail::swarm_of<swarm>(o.fabric, o.peer, stage::routing::least_load{{o.seed, o.newcomers}}, o.log);
}

CAUSEWAY_DECL diloco_swarm make(const diloco_swarm_options& o) {
  parallel::swarm_options peer = o.peer;
  peer.local_steps = o.local_steps;
  return detail::swarm_of<diloco_swarm>(o.fabric, peer, stage::routing::least_load{{o.seed, o.newcomers}}, o.log);
}

CAUSEWAY_DECL comm::periodic<> rounds_of(const diloco_swarm_options& o) {
  return comm::periodic<>{{.local_steps = o.local_steps, .outer_learning_rate = o.outer_learning_rate},
                          optim::nesterov{{.momentum = o.momentum}}};
}

CAUSEWAY_DECL gwtf make(const gwtf_options& o) {
  const stage::routing::min_cost_flow_options how{.by_peers = o.by_peers, .seed = o.seed};
  return detail::swarm_of<gwtf>(o.fabric, o.peer, stage::routing::min_cost_flow{how}, o.log);
}

CAUSEWAY_DECL skippipe make(const skippipe_options& o) {
  using router = stage::routing::planned<>;
  return detail::swarm_of<skippipe>(o.fabric, o.peer, router{o.plan, stage::routing::least_load{{o.seed, o.newcomers}}},
                                    o.log);
}

}}}  // namespace causeway::CAUSEWAY_ABI::presets

#endif  // CAUSEWAY_PRESETS_IMPL_SWARMS_IPP
