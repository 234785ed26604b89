// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PRESETS_COMPRESSED_HPP
#define CAUSEWAY_PRESETS_COMPRESSED_HPP

// Published systems that send only a part of what changed, as compositions; see presets/local_updates.hpp.

#include <causeway/axis/content.hpp>
#include <causeway/axis/every.hpp>
#include <causeway/axis/exchange.hpp>
#include <causeway/axis/global_samples.hpp>
#include <causeway/axis/group_threshold_mean.hpp>
#include <causeway/axis/low_rank_mean.hpp>
#include <causeway/axis/merge_rule.hpp>
#include <causeway/axis/outer.hpp>
#include <causeway/axis/residual.hpp>
#include <causeway/collective/group_view.hpp>
#include <causeway/collective/norm_aggregators.hpp>
#include <causeway/comm/mirrors.hpp>
#include <causeway/comm/rounds.hpp>
#include <causeway/comm/stacked.hpp>
#include <causeway/compress/bits.hpp>
#include <causeway/compress/codebook.hpp>
#include <causeway/compress/dct.hpp>
#include <causeway/compress/mask.hpp>
#include <causeway/compress/none.hpp>
#include <causeway/compress/sign.hpp>
#include <causeway/compress/sparse.hpp>
#include <causeway/compress/stacked.hpp>
#include <causeway/compress/threshold.hpp>
#include <causeway/compress/top_k.hpp>
#include <causeway/compress/transform.hpp>
#include <causeway/optim/nesterov.hpp>
#include <causeway/optim/sgd.hpp>

#include <cstdint>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace presets {

/// SparseLoCo (Sarfi et al. 2025, Algorithm 1): pseudo-gradients with error feedback, the k largest of every tile of 64 by
/// 64 entries (64 of a vector) in 2 bits, with a codebook for each tensor, everybody's to everybody; each coordinate's mean
/// is over those who sent it; no outer momentum. As in its authors' code; with `clips` also as Templar runs it, where no
/// peer's tensor is longer than the median of the peers': see tests/golden/sparse_loco/reference.py. Of a vector with k =
/// 64 nothing is left out. Where batches are so small that peers' rows have little in common, that mean takes steps up to
/// as many times too long as there are peers (docs/benchmarks-losses.md): lower the outer rate, or divide by all peers, as
/// the paper's equation does.
///
/// Formula:
///   Δ_i = x̄ − x_i after H inner steps;  e_i ← β·e_i + Δ_i;  sent_i = Q(top-k(e_i));  e_i ← e_i − sent_i
///   clips: sent_i ← sent_i·min(1, median_j |sent_j| / |sent_i|), tensor by tensor, in the mean
///   Δ[c] = Σ sent_i[c] / (how many sent c);  with over_all / n;  x̄ ← x̄ − η·Δ;  x_i ← x̄
/// Sent: places and 2-bit codes of what is largest, with a codebook for each tensor, to everybody after every H-th step.
struct sparse_loco_options {
  std::uint32_t local_steps = 30;
  std::uint32_t k = 64;  ///< of each tile
  float error_decay = 0.95F;
  float outer_learning_rate = 1.0F;
  bool over_all = false;  ///< the mean is over all peers, as in the paper, not over those who sent a coordinate
  bool clips = false;     ///< tensors longer than the median of all peers' are scaled down to it, as in Templar
};
namespace detail {
using sparse_loco_codec = compress::sparse<compress::no_transform, compress::top_k, compress::codebook<2>>;
}
using sparse_loco = comm::rounds<axis::every, axis::error_feedback,
                                 axis::gather_mean<detail::sparse_loco_codec, collective::clipped_contributor_mean>,
                                 axis::outer<optim::sgd>>;
CAUSEWAY_DECL [[nodiscard]] sparse_loco make(const sparse_loco_options& o);

/// SPARTA (2025): in every step the same small random part of the parameters is averaged on all peers.
///
/// Formula:
///   in every step: a random set M of coordinates, the same on all peers;  x_i[M] ← mean of x_j[M]
/// Sent: the values at M, in f32, to everybody in every step; their places follow from the run's seed.
struct sparta_options {
  double share = 0.005;
  compress::mask_order order = compress::mask_order::independent;
};
namespace detail {
using sparta_codec = compress::sparse<compress::no_transform, compress::shared_mask, compress::none>;
}
using sparta =
    comm::rounds<axis::every, axis::parameters, axis::gather_mean<detail::sparta_codec, collective::contributor_mean>>;
CAUSEWAY_DECL [[nodiscard]] sparta make(const sparta_options& o);

/// SPARTA between the rounds of DiLoCo, which can then be ten times longer.
///
/// Formula:
///   in every step: x_i[M] ← mean of x_j[M], M drawn anew
///   every H steps: Δ = mean of (x̄ − x_i);  v ← μ·v + Δ;  x̄ ← x̄ − η·(Δ + μ·v);  x_i ← x̄
/// Sent: the values at M to everybody in every step; Δ_i in f32, in an all-reduce, after every H-th.
struct sparta_diloco_options {
  sparta_options sparta{};
  std::uint32_t local_steps = 1000;
  float outer_learning_rate = 0.7F;
  float outer_momentum = 0.9F;
};
using sparta_diloco = comm::stacked<sparta, comm::rounds<axis::every, axis::outer<optim::nesterov>>>;
CAUSEWAY_DECL [[nodiscard]] sparta_diloco make(const sparta_diloco_options& o);

/// DeMo (Peng et al. 2024): every step the k largest DCT coefficients of each 64×64 tile of the momentum (of 64 values of a
/// vector) leave it and are sent; each coefficient's mean is over those who sent it, and the step is the sign of its
/// inverse. Give the trainer optim::sgd with weight decay, and no clipping.
///
/// Formula:
///   m_i ← β·m_i + lr·g_i;  q_i = top-k of DCT(m_i), tile by tile;  m_i ← m_i − DCT⁻¹(q_i)
///   Q[c] = Σ q_i[c] / (how many sent c);  x ← x − lr·sign(DCT⁻¹(Q))
/// Sent: places and f32 values of the k largest coefficients of each tile, to everybody in every step.
struct demo_options {
  std::uint32_t k = 32;  ///< of each tile
  float momentum = 0.999F;
};
namespace detail {
template <class Values>
using demo_exchange = axis::gather_mean<compress::sparse<compress::dct_tiles, compress::top_k, Values>,
                                        collective::sign_of<collective::contributor_mean>>;
}
using demo = comm::rounds<axis::every, axis::gradient, axis::momentum_residual, detail::demo_exchange<compress::none>>;
CAUSEWAY_DECL [[nodiscard]] demo make(const demo_options& o);

/// DisTrO as Psyche runs it (Nous Research 2024): DeMo whose coefficients travel as their signs and leave the momentum as
/// they are, used one step late, so that the exchange has a whole step; gradients are taken where the parameters would be
/// after a step by this peer's own last row. The learning rate of an update is the one of the step that makes it, where
/// Psyche has that of the next: see tests/golden/distro/reference.py.
///
/// Formula:
///   g_i: gradient at x − lr·sign(DCT⁻¹(s_i)), s_i of the step before
///   m_i ← β·m_i + lr·g_i;  q_i = top-k of DCT(m_i);  m_i ← m_i − DCT⁻¹(q_i);  s_i = sign(q_i)
///   S[c] = Σ s_i[c] / (how many sent c);  x ← x − lr·sign(DCT⁻¹(S)), one step late
/// Sent: places and signs of the k largest coefficients of each tile, to everybody in every step, while the next one
/// computes.
struct distro_options : demo_options {};
using distro = comm::rounds<axis::every, axis::gradient_ahead, axis::momentum_residual, axis::one_round_late,
                            detail::demo_exchange<compress::unit_sign>>;
CAUSEWAY_DECL [[nodiscard]] distro make(const distro_options& o);

/// CocktailSGD (Wang et al. 2023): a random fifth of the distance to the shared parameters, of that the largest, in 4 bits,
/// to the owner of each part, who keeps a residual of his own and answers likewise; one step late, and till then what was
/// sent stays in the live parameters, too, as in its authors' code (github.com/DS3Lab/CocktailSGD, 4819ed7).
///
/// Formula:
///   Δ_i = x̄ − x_i;  q_i = 4 bits of top-k of a random fifth of Δ_i, which is the same fifth on all peers
///   owner of a part: Δ = C(mean of q_i + r);  r ← mean of q_i + r − Δ, C of the same kind as q
///   one step later: x̄ ← x̄ − Δ;  x_i keeps what was not sent
/// Sent: places and 4-bit codes to the owners of parts, and their answers to all, in every step, while the next one
/// computes.
struct cocktail_sgd_options {
  double mask_share = 0.2;  ///< with the 8 % below and a bit for each entry of the mask this is the paper's 117x
  std::uint32_t k = 328;    ///< of each 4,096 entries that the mask leaves: 8 %
};
namespace detail {
using cocktail_codec =
    compress::sparse<compress::no_transform, compress::stacked<compress::shared_mask, compress::top_k>, compress::bits<4>>;
}
using cocktail_sgd = comm::rounds<axis::every, axis::implicit_residual, axis::one_round_late,
                                  axis::split_mean<detail::cocktail_codec>, axis::outer<optim::sgd>>;
CAUSEWAY_DECL [[nodiscard]] cocktail_sgd make(const cocktail_sgd_options& o);

/// Gaia (Hsieh et al. 2017) between sites: after every step the updates travel that are significant, |u/w| > v_0/√t; the
/// others go on accumulating where they are. Every site adds what the others send to its own copy: updates of n sites add
/// up, so the learning rate is to be 1/n of that for their mean. Every step is a barrier here: sites are never apart by a
/// clock, so that there is nothing for the paper's mirror clock and its selective barrier to do; gaia_asp has both. It also
/// has the paper's overlay of hubs between groups of sites, with a barrier in every step if its `most_ahead` is 1: a hub
/// keeps a second x̄, of what the other groups know, for which there is no place in a round that all make together.
///
/// Formula:
///   u_i = x̄ − x_i;  sent_i[c] = u_i[c] where |u_i[c] / x̄[c]| > v_0/√t, else 0;  x̄ ← x̄ − Σ sent_i
///   what was not sent stays in x_i, and so in the next u_i
/// Sent: places and f32 values of significant updates, to everybody in every step.
struct gaia_options {
  float threshold = 0.01F;  ///< v_0
};
namespace detail {
using gaia_codec = compress::sparse<compress::no_transform, compress::significant, compress::none>;
}
using gaia = comm::rounds<axis::every, axis::implicit_residual, axis::gather_mean<detail::gaia_codec, collective::sum>,
                          axis::outer<optim::sgd>>;
CAUSEWAY_DECL [[nodiscard]] gaia make(const gaia_options& o);

/// Gaia (Hsieh et al. 2017) between sites that go at their own pace, by its approximate synchronous parallel model: the
/// filter of gaia; a mirror clock, which holds a site that is DS clocks ahead of the slowest; and a selective barrier,
/// which holds a site while updates are on their way that the link could not carry in time. A step reads all parameters, so
/// a barrier holds all of it, and names no places; that a link is too slow shows by what it has not carried yet when the
/// next clock's updates are due. DS is chosen: the paper's was not at hand. Updates of n sites add up: see gaia. With
/// `groups` the paper's overlay: sites that are close to each other form a group, whose hub alone talks to the other hubs:
/// it tells them what is significant of all that its group changed, and its group what is of the other hubs'.
///
/// Formula:
///   u_i = x̄_i − x_i;  sent_i[c] = u_i[c] where |u_i[c] / x_i[c]| > v_0/√t, else 0;  x̄_i ← x̄_i − sent_i
///   each sent_j, when it comes:  x̄_i ← x̄_i − sent_j;  x_i ← x_i − sent_j
///   site i waits while its clock ≥ the slowest known one + DS, or what a barrier has announced is not here
///   a hub has an x̄ for its group and one for the hubs; what one of the two sends it moves x and that x̄ alone
/// Sent: places and f32 values of significant updates, and the clock, to everybody after every step, or to the group, and
/// from hub to hub; nobody waits for them but as said above.
struct gaia_asp_options {
  float threshold = 0.01F;                             ///< v_0
  std::uint32_t most_ahead = 4;                        ///< DS; 1: every step is a barrier
  std::vector<std::vector<net::peer_index>> groups{};  ///< all sites, hubs first; none: everybody talks to everybody
  collective::region_label label{.fewest = 1};  ///< where peers come and go, instead of groups: this site's, and how many
  std::uint64_t record_samples = 0;             ///< where peers come and go, of all of them from one record to the next
};
using gaia_asp = comm::mirrors<detail::gaia_codec>;
CAUSEWAY_DECL [[nodiscard]] gaia_asp make(const gaia_asp_options& o);

/// StellaTrain (Lim et al. 2024, SIGCOMM) as its authors' code runs it (github.com/kaist-ina/stellatrain 6dccb2d): of each
/// tensor the groups of 16 values that reach a threshold, which remembers; the rest is kept for later; an optimizer that
/// moves only what came; one step late, so that the exchange has a whole step. Give the trainer optim::sparse_sgd or
/// optim::sparse_adam, and no clipping. What is different here: tests/golden/traces/stella_train.golden. Its
/// controller of batch sizes and of the share for the bandwidth of now is plan::batch_rate_controller, and before a run
/// `causeway plan --batches`; a run keeps the share that it began with.
///
/// Formula:
///   e_i ← e_i + g_i;  S_i: groups G of 16 values with Σ_{G} |e_i| ≥ τ_i, at most share/n of each tensor, then the largest
///   τ_i ← 0.99·τ_i where too few reached it, else τ_i + 0.01·(its first value);  sent_i = e_i[S_i];  e_i[S_i] ← 0
///   one step later: g = Σ sent_i / n;  the optimizer moves x where g is not 0, and its state there
///   in_parts: S_i is of the (t + i mod n)-th part of each tensor, and g = Σ sent_i
/// Sent: places and f32 values of groups, to everybody in every step, while the next one computes.
struct stella_train_options {
  double share = 0.01;    ///< of all values that arrive; the authors' code calls 1 - share its compression ratio
  bool in_parts = false;  ///< as their code does without MERGE: the learning rate is then to be 1/n of that
};
using stella_train =
    comm::rounds<axis::every, axis::gradient, axis::error_feedback, axis::one_round_late, axis::group_threshold_mean>;
CAUSEWAY_DECL [[nodiscard]] stella_train make(const stella_train_options& o);

/// PowerSGD (Vogels et al. 2019): gradients as two thin factors a matrix, with error feedback; the rest in f32.
///
/// Formula:
///   M_i = g_i + e_i;  P = orthonormal(mean of M_i·Q);  Q ← mean of M_iᵀ·P;  g = P·Qᵀ;  e_i ← M_i − g
/// Sent: the factors in f32, in two exchanges one after another, to owners of parts and back, in every step.
struct power_sgd_options {
  std::uint32_t rank = 4;
};
using power_sgd = comm::rounds<axis::every, axis::gradient, axis::error_feedback, axis::low_rank_mean>;
CAUSEWAY_DECL [[nodiscard]] power_sgd make(const power_sgd_options& o);

/// Dion (Ahn, Xu, Abreu and Langford 2025) with what its authors call compressed data-parallel sync: of the matrices of
/// hidden layers each peer's momentum is averaged as two thin factors, and the step is P·Qᵀ, orthonormal vectors times ones
/// of length one; what that leaves out stays in the momentum. All else is AdamW's. Give the trainer optim::dion with
/// `given`, and no clipping. With gradients that travel whole, presets::every_step and optim::dion make the same
/// parameters. The rank is chosen: the authors advise a quarter of the width at 3 billion parameters, and less above.
///
/// Formula:
///   B_i = M_i + g_i;  P = orthonormal(mean of B_i·Q);  R = mean of B_iᵀ·P;  Q ← R, each vector over its length
///   M_i ← B_i − (1 − μ)·P·Rᵀ;  X ← X − lr·(√(rows/columns)·P·Qᵀ + λ·X)
/// Sent: the factors in f32, in two exchanges one after another, to owners of parts and back, in every step.
struct dion_options {
  std::uint32_t rank = 64;  ///< at most
  float momentum = 0.95F;   ///< μ
};
using dion = comm::rounds<axis::every, axis::gradient, axis::error_feedback, axis::dion_mean>;
CAUSEWAY_DECL [[nodiscard]] dion make(const dion_options& o);

/// DeDLOC (Diskin et al. 2021): peers gather gradients at their own pace until all have `batch` samples together, then
/// average, weighted by samples, and step. `shares` are those of the peers as aggregators, from their bandwidths
/// (collective::bandwidth_shares); none: equal. Peers that only gather, or only average, are weights and shares of 0: an
/// auxiliary peer has a share and no samples. Its authors' runs have optim::lamb, whose defaults are theirs, at a rate of
/// 0.00176. Where peers come and go, who was late for a step brings its gradients to the next; hivemind's peers drop them.
/// In pipelines and swarms nobody is late: all make each step together, and a round has the same samples whoever is lost.
///
/// Formula:
///   peer i sums gradients of n_i samples until Σ n_i ≥ B;  g = Σ n_i·g_i / Σ n_i;  one step of the optimizer
/// Sent: 24 bytes to everybody after each step of a peer, and once more for an exchange; gradients in f32, to owners of
/// parts and back, once the batch is full.
struct dedloc_options {
  std::uint64_t batch = 4096;
  std::vector<double> shares{};  ///< only with a fixed set of peers
};
using dedloc = comm::rounds<axis::global_samples, axis::gradient, axis::split_mean<>>;
CAUSEWAY_DECL [[nodiscard]] dedloc make(const dedloc_options& o);

}}}  // namespace causeway::CAUSEWAY_ABI::presets

#ifndef CAUSEWAY_COMPILED
#include <causeway/presets/impl/compressed.ipp>
#endif

#endif  // CAUSEWAY_PRESETS_COMPRESSED_HPP
