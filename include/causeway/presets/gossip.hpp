// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PRESETS_GOSSIP_HPP
#define CAUSEWAY_PRESETS_GOSSIP_HPP

// Published systems in which peers meet in groups, as compositions; see presets/local_updates.hpp.

#include <causeway/axis/content.hpp>
#include <causeway/axis/every.hpp>
#include <causeway/axis/exchange.hpp>
#include <causeway/axis/fragments.hpp>
#include <causeway/axis/groups.hpp>
#include <causeway/axis/linked_groups.hpp>
#include <causeway/axis/outer.hpp>
#include <causeway/axis/participation.hpp>
#include <causeway/comm/rounds.hpp>
#include <causeway/compress/none.hpp>
#include <causeway/optim/sgd.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace presets {

/// NoLoCo (Kolehmainen et al. 2025): every 50 steps random pairs, and an outer step that also pulls toward the partner. Its
/// dynamic pipeline routing, which mixes replicas between these steps, is `random_routes` of parallel::pipeline_options.
///
/// Formula:
///   pairs drawn anew:  Δ_i = φ_i − x_i after H steps;
///   δ_i ← α·δ_i − β·(mean of the pair's Δ) − γ·(φ_i − mean of the pair's φ)
///   φ_i ← φ_i + δ_i;  x_i ← φ_i
/// Sent: Δ_i and φ_i in f32, to the partner and nobody else, after every H-th step.
struct noloco_options {
  std::uint32_t local_steps = 50;
  std::uint32_t group_size = 2;
  axis::gossip_nesterov_options outer{.alpha = 0.5F, .beta = 0.7F, .gamma = 0.7F};
};
using noloco = comm::rounds<axis::every, axis::random_groups, axis::pseudo_gradient_and_anchor, axis::gather_mean<>,
                            axis::gossip_nesterov>;
CAUSEWAY_DECL [[nodiscard]] noloco make(const noloco_options& o);

/// Moshpit SGD (Ryabinin et al. 2021): every τ steps parameters are averaged along one axis of a grid of peers. Groups
/// follow from where a peer was in the last ones, as in the paper. Its program's matchmaking is two things: a rule of who
/// meets whom, which is axis::key_groups (hivemind 4bd43b7, averaging/key_manager.py: peers with equal keys; then each adds
/// its number in the group as the last bits of its key), and a search in a hash table for who is there with that key, where
/// the first peers to find each other go and others wait. There is no mathematics in the second; here everybody knows who
/// is there, and nobody is left over.
///
/// Formula:
///   peers in a grid of side^d;  exchange t: x_i ← mean over the peers of i's line along axis t mod d
/// Sent: parameters in f32 within a line of the grid, to owners of parts and back, every τ steps.
struct moshpit_sgd_options {
  std::uint32_t local_steps = 20;
  std::uint32_t side = 4;
  std::uint32_t dimensions = 2;
};
using moshpit_sgd = comm::rounds<axis::every, axis::grid, axis::parameters, axis::split_mean<>>;
CAUSEWAY_DECL [[nodiscard]] moshpit_sgd make(const moshpit_sgd_options& o);

/// BACombo (Jiang et al. 2020): gossip with segments; each segment of the parameters meets a partner of its own, one with a
/// good link but for a share ε of random ones, and each counts by its samples. Who pulls from whom is mutual here. What
/// links cost is measured while a run goes on (`measure_every`, fixed peers), or before it (`link_costs`, in any unit);
/// without costs all are drawn at random.
///
/// Formula:
///   for each segment s a group G of its own:  x_i[s] ← Σ n_j·x_j[s] / Σ n_j over G
///   G: the cheapest links that are free;  with probability ε at random
/// Sent: segments in f32, to the others of the segment's group, after every H-th step.
struct bacombo_options {
  std::uint32_t local_steps = 20;
  std::uint32_t segments = 4;
  std::uint32_t group_size = 2;
  std::vector<double> link_costs{};  ///< of each peer to each peer, row by row; equal on all peers
  double explore = 0.1;              ///< ε
  std::uint32_t measure_every = 0;   ///< exchanges after which links are measured again, in place of `link_costs`; 0: never
};
using bacombo =
    comm::rounds<axis::every, axis::linked_groups, axis::parameters, axis::balanced, axis::gather_mean<>, axis::by_samples>;
CAUSEWAY_DECL [[nodiscard]] bacombo make(const bacombo_options& o);

/// Ravnest (Menon et al. 2024) between its clusters: each averages for itself, their hubs around a ring. Its pipelines
/// inside a cluster are not this policy's; there a cluster is one model, and one ring for each range of parameters, among
/// the peers that have it, takes the place of the hubs': the mean is the same. Where peers come and go each says in every
/// exchange in which cluster it is, and the first who is there is the hub. Which peers should be a cluster, by memory and
/// bandwidth: plan::plan_clusters, a genetic search, which `causeway plan --clusters` prints.
///
/// Formula:
///   in each cluster: its mean;  between hubs: the mean of all by a ring;  x_i ← mean of all x_j
/// Sent: f32 rows to the cluster's hub, around the ring of hubs, and back, after every H-th step.
struct ravnest_options {
  std::uint32_t local_steps = 20;
  collective::region_list clusters{{0, 1}, {2, 3}};  ///< all peers, hubs first; none where peers come and go
  collective::region_label label{};                  ///< where there are none: this peer's cluster
};
using ravnest =
    comm::rounds<axis::every, axis::two_level_mean<axis::quantised_ring<compress::none>>, axis::outer<optim::sgd>>;
CAUSEWAY_DECL [[nodiscard]] ravnest make(const ravnest_options& o);

/// NETSTORM (2024): gradients cut into shares, each with a tree of its own to a root of its own. Trees are by index; with
/// `measure_every` peers of a fixed set measure what each link gives, and trees are planned again by that, of the fastest
/// paths to their roots. With an `arity` of 0 these are the authors' (github.com/fengwenjiao/netstorm 3eaeba1,
/// 3rdparty/ps-lite/src/van.cc): each peer's fastest path, whatever its parent's line has to carry. By default a parent has
/// two children that share its line, and a link costs more in each further tree, since a host's links mostly share one line
/// to the network; theirs are taken as independent. Sums and means take one tree here, by each link's slower direction.
///
/// Auxiliary paths, as theirs: a share is cut into messages. While more than 2 L of them wait for the line to the next
/// peer, the next one goes by the fastest path that has no peer in between with an earlier one in common and fewer than L
/// waiting at its beginning; third peers pass bytes on, so the result has the same bits. L is `auxiliary`, 1 in the
/// authors' demo (AUXILIARY_QUEUE_LENGTH; the program reads SECOND_QUEUE_LIMIT), a message their 1,000,000 values. A share
/// of one message goes directly. Without measurements, and so where peers come and go, all links count as alike. A share is
/// handed over as a whole, once it is summed up, so a path takes at most L + 1 of its messages. Of a link's paths at most 8
/// are used, and none that is slower than 2 L + 2 messages on the link itself, as theirs may be.
///
/// Formula:
///   share s of the gradient: summed up a tree to root s, the mean down again;  x ← x − lr·(mean of g_i)
/// Sent: each share in f32 along its own tree, up and down, in every step.
struct netstorm_options {
  std::uint32_t shares = 4;
  std::uint32_t arity = 2;  ///< children of a peer; 0: any number
  std::vector<net::peer_index> roots{0, 1, 2, 3};
  std::uint32_t measure_every = 0;        ///< steps after which links are measured again; 0: never
  std::uint32_t auxiliary = 1;            ///< L: messages that wait; 0: no auxiliary paths
  std::size_t message_bytes = 4'000'000;  ///< of a message
};
using netstorm = comm::rounds<axis::every, axis::gradient, axis::balanced, axis::tree_mean<>>;
CAUSEWAY_DECL [[nodiscard]] netstorm make(const netstorm_options& o);

}}}  // namespace causeway::CAUSEWAY_ABI::presets

#ifndef CAUSEWAY_COMPILED
#include <causeway/presets/impl/gossip.ipp>
#endif

#endif  // CAUSEWAY_PRESETS_GOSSIP_HPP
