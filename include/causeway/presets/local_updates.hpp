// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PRESETS_LOCAL_UPDATES_HPP
#define CAUSEWAY_PRESETS_LOCAL_UPDATES_HPP

// Published systems that train by local updates, as compositions. Each has a type, options with its paper's defaults, and
// `make(options)`, which gives the policy: `make_trainer(model, env, o, presets::make(presets::diloco_options{}))`.

#include <causeway/axis/content.hpp>
#include <causeway/axis/every.hpp>
#include <causeway/axis/every_seconds.hpp>
#include <causeway/axis/exchange.hpp>
#include <causeway/axis/fragments.hpp>
#include <causeway/axis/growing.hpp>
#include <causeway/axis/outer.hpp>
#include <causeway/axis/participation.hpp>
#include <causeway/axis/penalised_mean.hpp>
#include <causeway/axis/residual.hpp>
#include <causeway/comm/every_step.hpp>
#include <causeway/comm/rounds.hpp>
#include <causeway/compress/codebook_rows.hpp>
#include <causeway/compress/fp16.hpp>
#include <causeway/compress/none.hpp>
#include <causeway/compress/sigma_int8.hpp>
#include <causeway/optim/nesterov.hpp>
#include <causeway/optim/sgd.hpp>

#include <cstdint>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace presets {

/// Synchronous data parallelism.
using every_step = comm::every_step<>;

/// DiLoCo (Douillard et al. 2023): 500 inner AdamW steps, outer Nesterov with rate 0.7 and momentum 0.9.
///
/// Formula:
///   Δ_i = x̄ − x_i after H inner steps;  Δ = mean of Δ_i
///   v ← μ·v + Δ;  x̄ ← x̄ − η·(Δ + μ·v);  x_i ← x̄
/// Sent: Δ_i in f32, in an all-reduce of all peers after every H-th step; training waits for it.
struct diloco_options {
  std::uint32_t local_steps = 500;
  float outer_learning_rate = 0.7F;
  float outer_momentum = 0.9F;
};
using diloco = comm::rounds<axis::every, axis::outer<optim::nesterov>>;
CAUSEWAY_DECL [[nodiscard]] diloco make(const diloco_options& o);

/// OpenDiLoCo (Jaghouar et al. 2024): DiLoCo with fp16 pseudo-gradients.
///
/// Formula:
///   Δ_i = x̄ − x_i after H inner steps;  Δ = fp16(mean of fp16(Δ_i))
///   v ← μ·v + Δ;  x̄ ← x̄ − η·(Δ + μ·v);  x_i ← x̄
/// Sent: Δ_i in fp16, in an all-reduce of all peers after every H-th step.
struct open_diloco_options : diloco_options {};
using open_diloco = comm::rounds<axis::every, axis::outer<optim::nesterov>, axis::all_reduce<compress::fp16>>;
CAUSEWAY_DECL [[nodiscard]] open_diloco make(const open_diloco_options& o);

/// INTELLECT-1 / PRIME (Jaghouar et al. 2024): DiLoCo every 100 steps, with 8-bit codes of a range 6σ wide and codebooks
/// that travel, around a ring whose ends are equal bit for bit. The part inside a site (FSDP) is not this policy's.
///
/// Formula:
///   Δ_i = x̄ − x_i after H inner steps;  Δ = mean of Δ_i, in Q at every hop of the ring
///   v ← μ·v + Δ;  x̄ ← x̄ − η·(Δ + μ·v);  x_i ← x̄
///   Q(x): 256 bins over mean ± 3σ;  a value becomes the mean of those in its bin
/// Sent: 8-bit codes and their codebook, once around the ring to sum and once to spread, after every H-th step.
struct intellect1_options {
  std::uint32_t local_steps = 100;
  float outer_learning_rate = 0.7F;
  float outer_momentum = 0.9F;
};
using intellect1 = comm::rounds<axis::every, axis::outer<optim::nesterov>, axis::quantised_ring<compress::sigma_int8>>;
CAUSEWAY_DECL [[nodiscard]] intellect1 make(const intellect1_options& o);

/// MuLoCo (Thérien et al. 2025): DiLoCo with inner Muon (give the trainer optim::muon; theirs has momentum 0.9 and no
/// Nesterov), error feedback, and 2 bits with a codebook for each row of the hidden matrices; embeddings, head and vectors
/// in f32. The mean is quantised again, as by who reduces a part and sends it on. With their job file's numbers; that also
/// scales by the outer rate before error feedback, which is not followed: see tests/golden/muloco/reference.py.
///
/// Formula:
///   Δ_i = x̄ − x_i after H steps of Muon;  e_i ← β·e_i + Δ_i;  sent = Q(e_i);  e_i ← e_i − sent
///   Δ = Q(mean of sent);  v ← μ·v + Δ;  x̄ ← x̄ − η·(Δ + μ·v);  x_i ← x̄
///   Q: 2 bits a value, 4 bins over 6σ and their means, for each row;  vectors, embeddings, head: as they are
/// Sent: Q(e_i) of everybody to everybody after every H-th step.
struct muloco_options {
  std::uint32_t local_steps = 30;
  float outer_learning_rate = 0.8F;
  float outer_momentum = 0.9F;
  float error_decay = 0.9F;
};
using muloco = comm::rounds<axis::every, axis::outer<optim::nesterov>,
                            axis::gather_mean<compress::codebook_rows<2>, collective::recoded<>>, axis::error_feedback>;
CAUSEWAY_DECL [[nodiscard]] muloco make(const muloco_options& o);

/// Local SGD (Stich 2019): parameters are averaged every H steps.
///
/// Formula:
///   x_i ← x_i − lr·g_i, H times;  then x_i ← mean of x_j
/// Sent: how far a peer has moved, in f32, in an all-reduce of all peers after every H-th step.
struct local_sgd_options {
  std::uint32_t local_steps = 20;
};
using local_sgd = comm::rounds<axis::every, axis::outer<optim::sgd>>;
CAUSEWAY_DECL [[nodiscard]] local_sgd make(const local_sgd_options& o);

/// FedAvg (McMahan et al. 2017, algorithm 1): a share C of the peers is drawn for each round, trains `local_steps` batches
/// (E epochs of its data) and is averaged by its samples; the others rest, and send no row.
///
/// Formula:
///   S: max(1, C·n) peers, drawn anew;  each k in S takes H steps on n_k samples
///   x̄ ← Σ n_k·x_k / Σ n_k over S;  all peers: x_i ← x̄
/// Sent: rows of the peers in S, to the owners of parts, who send the mean of their part to all, after every round.
struct fedavg_options {
  std::uint32_t local_steps = 100;
  double share = 1.0;
};
using fedavg = comm::rounds<axis::every, axis::outer<optim::sgd>, axis::sampled_peers, axis::split_mean<>>;
CAUSEWAY_DECL [[nodiscard]] fedavg make(const fedavg_options& o);

/// Photon (Sani et al. 2024): small batches with a high inner rate, sampled peers as in FedAvg, an outer momentum (FedMom;
/// momentum 0 and rate 1 is FedAvg). 64 to 512 local steps: as many times less traffic.
///
/// Formula:
///   S: max(1, C·n) peers, drawn anew;  Δ = Σ n_k·(x̄ − x_k) / Σ n_k over S
///   v ← μ·v + Δ;  x̄ ← x̄ − η·(Δ + μ·v);  x_i ← x̄
/// Sent: rows of the peers in S, to the owners of parts, who send the mean of their part to all, after every round.
struct photon_options {
  std::uint32_t local_steps = 128;
  double share = 1.0;
  float outer_learning_rate = 1.0F;
  float outer_momentum = 0.0F;
};
using photon = comm::rounds<axis::every, axis::outer<optim::nesterov>, axis::sampled_peers, axis::split_mean<>>;
CAUSEWAY_DECL [[nodiscard]] photon make(const photon_options& o);

/// Co-learning (Xu et al. 2019): averaging, with rounds that double when the model moves by less than a tolerance, each a
/// cycle of the learning rate: it falls exponentially, and begins anew with the next round. That it falls to a quarter is a
/// choice made here.
///
/// Formula:
///   step j of a round: lr·c^(j/H);  then x_i ← mean of x_j
///   H ← min(2·H, most) where |change of x̄| ≤ ε·|x̄|
/// Sent: how far a peer has moved, in f32, in an all-reduce of all peers after each round, whose length grows.
struct co_learning_options {
  axis::growing_options rounds{.local_steps = 20, .most = 1280, .factor = 2, .tolerance = 0.01, .cycle_end = 0.25F};
};
using co_learning = comm::rounds<axis::growing, axis::outer<optim::sgd>>;
CAUSEWAY_DECL [[nodiscard]] co_learning make(const co_learning_options& o);

/// DES-LOC (Iacob et al. 2025): parameters and both moments of the inner optimizer are averaged, each with a period of its
/// own. The inner optimizer must have moments (optim::adamw).
///
/// Formula:
///   every K_x steps: x_i ← mean of x_j;  every K_u: u_i ← mean of u_j;  every K_v: v_i ← mean of v_j
///   u, v: first and second moment of the inner AdamW, which go on in between
/// Sent: parameters or a moment in f32, each by its own period, to owners of parts and back.
struct des_loc_options {
  std::uint32_t parameters_every = 32;
  std::uint32_t first_moment_every = 96;
  std::uint32_t second_moment_every = 192;
};
using des_loc = comm::rounds<axis::periods, axis::parameters_and_moments, axis::split_mean<>>;
CAUSEWAY_DECL [[nodiscard]] des_loc make(const des_loc_options& o);

/// EDiT (Cheng et al. 2024): local steps, then layer by layer an outer step on pseudo-gradients with a penalty: one that is
/// an outlier among its worker's own counts for nothing, longer ones count less than shorter ones, the sum is clipped;
/// where all are outliers, all go back to where the round began. A layer is a block, and all that lies outside of blocks is
/// one. The statistics' numbers are those of its authors' code, the others are chosen. Its synchronous first
/// steps, with fixed peers: comm::post_local{make(o), {.steps = W}}. Not here: shards inside a worker, and exchanges that
/// wait for the layer's next forward.
/// With rounds that end by the clock: presets::a_edit.
///
/// Formula:
///   of each layer: Δ_i = x̄ − x_i after H steps;  Δ_i counts unless |Δ_i| is an outlier of peer i's own norms
///   w_i = exp(−|Δ_i|/T) / Σ exp(−|Δ_j|/T);  Δ = Σ w_i·Δ_i;  Δ ← Δ·min(1, φ/(|Δ| + 1e-6))
///   v ← μ·v + Δ;  x̄ ← x̄ − η·(Δ + μ·v);  all outliers: x̄ stays;  x_i ← x̄
/// Sent: of each layer the norms of all, then weighted rows in f32, to owners of parts and back, after every H-th step.
struct edit_options {
  std::uint32_t local_steps = 128;
  std::uint32_t warm_up = 120;  ///< rounds before a pseudo-gradient can be an outlier, at least 2
  double decay = 0.02;          ///< α of the moving mean and variance of norms
  double threshold = 3;         ///< standard deviations
  double temperature = 1;       ///< of the softmax of −|Δ|
  double clip = 10;             ///< φ; 0: none
  float outer_learning_rate = 0.7F;
  float outer_momentum = 0.9F;
};
using edit = comm::rounds<axis::every, axis::consecutive, axis::penalised_mean, axis::outer_unless_zero<optim::nesterov>>;
CAUSEWAY_DECL [[nodiscard]] edit make(const edit_options& o);

/// A-EDiT (Cheng et al. 2024): EDiT whose peers exchange when they have trained for T seconds since they last met,
/// whatever number of steps each has made, unless all together made fewer than a least number: then time begins anew. So
/// quick peers do not wait for slow ones but for one step. T is time for local updates: what an exchange takes is not of
/// it, or peers would meet after nearly every step on slow lines (its authors' code counts from before the exchange). A
/// peer that has made the steps of its run goes on meeting the others until all have; it counts for nothing once it has
/// no steps that were not exchanged (its authors' code does not say: it stops all at once). Where peers come and go they
/// train on until they have made the least number, instead of beginning time anew, and each meeting is an exchange of
/// those who are there. Not here: what is not in presets::edit, and weights with a share for steps, which are off in
/// that code, too.
///
/// Formula:
///   T seconds of training after the last meeting, by each peer's own clock: s = Σ steps since the last exchange;
///   s < s_min: T anew
///   else as EDiT: of each layer Δ_i = x̄ − x_i, w_i = exp(−|Δ_i|/τ) / Σ exp(−|Δ_j|/τ) over those that are no outliers
///   Δ = Σ w_i·Δ_i;  Δ ← Δ·min(1, φ/(|Δ| + 1e-6));  v ← μ·v + Δ;  x̄ ← x̄ − η·(Δ + μ·v);  x_i ← x̄
/// Sent: 16 bytes to each other peer at a meeting; then as with presets::edit.
struct a_edit_options {
  double seconds = 600;              ///< T, of training
  std::uint64_t fewest_steps = 100;  ///< s_min, of all peers together
  std::uint32_t warm_up = 120;       ///< rounds before a pseudo-gradient can be an outlier, at least 2
  double decay = 0.02;               ///< α of the moving mean and variance of norms
  double threshold = 3;              ///< standard deviations
  double temperature = 1;            ///< τ, of the softmax of −|Δ|
  double clip = 10;                  ///< φ; 0: none
  float outer_learning_rate = 0.7F;
  float outer_momentum = 0.9F;
};
using a_edit =
    comm::rounds<axis::every_seconds, axis::consecutive, axis::penalised_mean, axis::outer_unless_zero<optim::nesterov>>;
CAUSEWAY_DECL [[nodiscard]] a_edit make(const a_edit_options& o);

}}}  // namespace causeway::CAUSEWAY_ABI::presets

#ifndef CAUSEWAY_COMPILED
#include <causeway/presets/impl/local_updates.ipp>
#endif

#endif  // CAUSEWAY_PRESETS_LOCAL_UPDATES_HPP
