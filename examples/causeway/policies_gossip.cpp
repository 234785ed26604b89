// SPDX-License-Identifier: Apache-2.0
// Peers that meet in small groups, or send along trees.

#include <causeway/presets/gossip.hpp>

#include <cstdint>
#include <utility>

#include "preset.hpp"

namespace app {

namespace presets = causeway::presets;

std::vector<policy> gossip_policies() {
  const presets::noloco_options noloco;
  return {
      preset<presets::noloco_options>(
          "noloco", "random pairs; nothing ever waits for all peers", pace::overlapping,
          {{"comm.outer_learning_rate", text(noloco.outer.beta)}, {"comm.outer_momentum", text(noloco.outer.alpha)}},
          [](const settings& s, auto& o) {
            o.outer.alpha = s.comm.outer_momentum;
            o.outer.beta = s.comm.outer_learning_rate;
          }),
      preset<presets::moshpit_sgd_options>("moshpit_sgd", "peers in a grid average along one axis after the other",
                                           pace::overlapping,
                                           {{"comm.group_size", text(presets::moshpit_sgd_options{}.side)}},
                                           [](const settings& s, auto& o) { o.side = s.comm.group_size; }),
      preset<presets::bacombo_options>("bacombo", "each fragment of the parameters meets a partner of its own",
                                       pace::overlapping, {{"comm.fragments", text(presets::bacombo_options{}.segments)}},
                                       [](const settings& s, auto& o) { o.segments = s.comm.fragments; }),
      preset<presets::ravnest_options>("ravnest", "clusters average for themselves, and their hubs around a ring",
                                       pace::together, {{"comm.group_size", "2"}},
                                       [](const settings& s, auto& o) {
                                         o.clusters = regions_of(replicas_of(s), s.comm.group_size);
                                         if (s.fault.policy != "quorum") return;
                                         o.label.fewest = static_cast<std::uint32_t>(std::exchange(o.clusters, {}).size());
                                         if (s.net.region >= 0) o.label.own = static_cast<std::uint32_t>(s.net.region);
                                       }),
      preset<presets::netstorm_options>("netstorm", "gradients in fragments, each up and down a tree of its own",
                                        pace::together, {{"comm.fragments", text(presets::netstorm_options{}.shares)}},
                                        [](const settings& s, auto& o) {
                                          o.shares = s.comm.fragments;
                                          o.roots.resize(o.shares);
                                          for (std::uint32_t i = 0; i < o.shares; ++i) o.roots[i] = i % replicas_of(s);
                                        }),
  };
}

}  // namespace app
