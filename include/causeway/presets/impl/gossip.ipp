// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PRESETS_IMPL_GOSSIP_IPP
#define CAUSEWAY_PRESETS_IMPL_GOSSIP_IPP

#include <causeway/presets/gossip.hpp>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace presets {

CAUSEWAY_DECL noloco make(const noloco_options& o) {
  return noloco{axis::every{o.local_steps}, axis::random_groups{o.group_size}, axis::pseudo_gradient_and_anchor{},
                axis::gather_mean<>{}, axis::gossip_nesterov{o.outer}};
}

CAUSEWAY_DECL moshpit_sgd make(const moshpit_sgd_options& o) {
  return moshpit_sgd{axis::every{o.local_steps}, axis::grid{o.side, o.dimensions}, axis::parameters{},
                     axis::split_mean<>{}};
}

CAUSEWAY_DECL bacombo make(const bacombo_options& o) {
  return bacombo{
      axis::every{o.local_steps}, axis::linked_groups{o.group_size, o.link_costs, o.explore, {.every = o.measure_every}},
      axis::parameters{},         axis::balanced{o.segments},
      axis::gather_mean<>{},      axis::by_samples{}};
}

CAUSEWAY_DECL ravnest make(const ravnest_options& o) {
  axis::two_level_mean<axis::quantised_ring<compress::none>> exchange{o.clusters};
  exchange.label = o.label;
  return ravnest{axis::every{o.local_steps}, exchange, axis::outer<optim::sgd>{1.0F}};
}

CAUSEWAY_DECL netstorm make(const netstorm_options& o) {
  return netstorm{axis::every{1}, axis::gradient{}, axis::balanced{o.shares},
                  axis::tree_mean<>{.arity = o.arity,
                                    .roots = o.roots,
                                    .links = {.every = o.measure_every},
                                    .relays = {.limit = o.auxiliary, .message_bytes = o.message_bytes}}};
}

}}}  // namespace causeway::CAUSEWAY_ABI::presets

#endif  // CAUSEWAY_PRESETS_IMPL_GOSSIP_IPP
