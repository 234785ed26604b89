// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PRESETS_ELASTIC_PIPELINES_HPP
#define CAUSEWAY_PRESETS_ELASTIC_PIPELINES_HPP

// Published systems of pipelines on peers that are taken away, as compositions of a recovery policy and a schedule. Each is
// the parallelism of a trainer with comm::every_step and fault::quorum, whose environment has a member of all peers for its
// group: no quota, no budget, `enters_afresh`.

#include <causeway/io/storage.hpp>
#include <causeway/parallel/elastic_pipeline.hpp>
#include <causeway/plan/stage_costs.hpp>
#include <causeway/plan/stage_split.hpp>
#include <causeway/plan/templates.hpp>
#include <causeway/stage/recovery.hpp>
#include <causeway/stage/recovery_morph.hpp>
#include <causeway/stage/recovery_neighbour.hpp>
#include <causeway/stage/recovery_proactive.hpp>
#include <causeway/stage/recovery_redundant_forward.hpp>
#include <causeway/stage/recovery_reroute.hpp>
#include <causeway/stage/recovery_swapped.hpp>
#include <causeway/stage/recovery_templates.hpp>
#include <causeway/stage/schedules.hpp>
#include <causeway/train/pipeline_executors.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace presets {

/// Oobleck (Jang et al., SOSP 2023): pipelines of different length from templates that are worked out once, f + 1 of them
/// at least, so that f peers may be lost at once; the batch is split so that they end together, gradients are averaged
/// block by block, and missing blocks are copied from another pipeline.
///
/// Formula:
///   p pipelines of unequal length, b_k micro-batches each, Σ b_k = B, so that they end together
///   g of a block = Σ over all micro-batches / B;  x ← optimizer(x, g)
/// Sent: activations and gradients of a boundary; of each block the gradients among who has it; a block where it is
/// missing.
struct oobleck_options {
  std::int64_t micro_batches = 32;           ///< of the global batch
  std::size_t failures = 1;                  ///< f: peers that may be lost at once
  std::size_t most_peers = 8;                ///< that the run may have; more are spare
  plan::model_cost model{};                  ///< costs of the blocks; none: all alike
  plan::template_peers kind{};               ///< memory and speed of a peer
  std::optional<io::any_storage> storage{};  ///< shared by machines, or one for each: the last resort
};
using oobleck = parallel::elastic_pipeline<stage::recovery::templates, stage::one_f_one_b>;
CAUSEWAY_DECL [[nodiscard]] oobleck make(const oobleck_options& o);

/// Varuna's job morphing (Athlur et al., EuroSys 2022): another number of stages and pipelines whenever peers come and go,
/// with the same global batch, and its schedule in each. The paper loads a checkpoint when it morphs; here blocks are
/// copied from peer to peer, and the saved ones are read only when nobody has a block.
///
/// Formula:
///   P pipelines of S stages, B/P micro-batches each;  (S, P) of least time a step, chosen anew when peers come or go
///   g = Σ over all micro-batches / B;  x ← optimizer(x, g)
/// Sent: activations and gradients of a boundary; of each stage the gradients among who has it; blocks when the shape
/// changes.
struct varuna_morphing_options {
  std::int64_t micro_batches = 32;           ///< of the global batch
  stage::recovery::morph_options search{};   ///< calibration and memory; none: blocks that are all alike
  std::optional<io::any_storage> storage{};  ///< shared by machines, or one for each
  std::uint64_t store_every = 100;           ///< steps between copies there
};
using varuna_morphing = parallel::elastic_pipeline<stage::recovery::morph, stage::varuna>;
CAUSEWAY_DECL [[nodiscard]] varuna_morphing make(const varuna_morphing_options& o);

/// Parcae (Duan et al., NSDI 2024): the number of stages and pipelines that is expected to train most over the next
/// intervals, given how many peers the run had so far, which of them may go, and what a change costs; changed before peers
/// go rather than after. The paper keeps the weights on a server besides (ParcaePS); here a storage that all peers reach
/// takes its place, and the plan counts the steps that are lost when it is needed. A peer that is told to go (a cloud's
/// notice, SIGTERM) is in no plan any more, nor in the count of peers that the forecast is made from, and the others take
/// over what it holds in its last step: `leave_next()`, `fault.notice` in the program. The authors' code does so at the
/// next step, too, with a grace period of 25 s.
///
/// Formula:
///   (S, P) of the next interval: argmax Σ over intervals ahead of expected (micro-batches trained − cost of a change)
///   g = Σ over all micro-batches / B;  x ← optimizer(x, g)
/// Sent: activations and gradients of a boundary; of each stage the gradients among who has it; blocks when the shape
/// changes.
struct parcae_options {
  std::int64_t micro_batches = 32;            ///< of the global batch
  stage::recovery::proactive_options plan{};  ///< costs, memory, intervals; none: blocks that are all alike
  std::optional<io::any_storage> storage{};   ///< shared by machines, or one for each
  std::uint64_t store_every = 100;            ///< steps between copies there
};
using parcae = parallel::elastic_pipeline<stage::recovery::proactive, stage::one_f_one_b>;
CAUSEWAY_DECL [[nodiscard]] parcae make(const parcae_options& o);

/// Bamboo (Thorpe et al., NSDI 2023): every peer holds its successor's stage too, repeats its forwards in idle time and
/// keeps their activations. When the successor is lost, its predecessor does what is left of both stages, and the step goes
/// on: no forward or backward of those who are left is made again. All are laid out anew between steps. The paper has peers
/// change over by a key-value store, here a new attempt of the membership begins with what everybody has kept; what was
/// sent over boundaries is kept by its sender for that. A peer lost with its predecessor costs the step.
///
/// Formula:
///   g = Σ over all micro-batches / B, also of a step in which peers are lost one by one;  x ← optimizer(x, g)
/// Sent: activations and gradients of a boundary, activations twice: to a stage and to its shadow; gradients among who
/// has a stage.
struct bamboo_options {
  std::int64_t micro_batches = 32;  ///< of the global batch
  std::int64_t stages = 4;          ///< of each pipeline; the paper takes 1.5 times as many as memory asks for
  std::optional<io::any_storage>
      storage{};                    ///< shared by machines, or one for each: for when a stage is lost with its shadow
  std::uint64_t store_every = 100;  ///< steps between copies there
};
using bamboo = parallel::elastic_pipeline<stage::recovery::redundant_forward, stage::one_f_one_b>;
CAUSEWAY_DECL [[nodiscard]] bamboo make(const bamboo_options& o);

/// ReCycle (Gandhi et al., SOSP 2024): a lost peer's micro-batches go to the peers of the same stage in other pipelines,
/// while its own pipeline goes on with its other stages. No block moves, and no peer has to be spare; backwards are split,
/// so that weight gradients fill what would be bubbles. Not here: the staggered optimizer step, since no parameter moves
/// before the run has taken the step.
///
/// Formula:
///   g = Σ over all micro-batches / B, of which the lost peers' go to others of their stage;  x ← optimizer(x, g)
/// Sent: activations and gradients of a boundary, of rerouted micro-batches to another pipeline and back; gradients among
/// who has a stage.
struct recycle_options {
  std::int64_t micro_batches = 32;           ///< of the global batch
  std::int64_t stages = 4;                   ///< of each pipeline
  plan::stage_costs costs{};                 ///< of stages and links; none: stages are alike and links cost nothing
  std::optional<io::any_storage> storage{};  ///< shared by machines, or one for each: for when a stage's last peer is lost
};
using recycle = parallel::elastic_pipeline<stage::recovery::reroute, stage::one_f_one_b>;
CAUSEWAY_DECL [[nodiscard]] recycle make(const recycle_options& o);

/// CheckFree (Blagoev et al., 2025): no checkpoints and no redundancy. A lost stage between others is made up from its two
/// neighbours, weighted by the squared norms of their gradients (the authors' code: by the clipped norms, as an option).
/// Its optimizer begins anew, and its learning rate is a tenth higher for the rest of the run. Where the first or the last
/// stage is lost, the run waits for a peer that has it.
///
/// Formula:
///   stage i lost: x_i ← (w·x_(i−1) + w'·x_(i+1)) / (w + w');  w = |g_(i−1)|², w' = |g_(i+1)|² of the last step
///   from then on: λ_i = 1.1 λ, however often it is lost;  its optimizer begins anew
///   else g = Σ over all micro-batches / B;  x ← optimizer(x, g)
/// Sent: activations and gradients of a boundary; gradients among who has a stage; after a loss the neighbours' stages to
/// who takes it over.
struct checkfree_options {
  std::int64_t micro_batches = 32;  ///< of the global batch
  std::int64_t stages = 4;          ///< of each pipeline
  float rate_factor = 1.1F;         ///< of the learning rate of a stage that was made up; the code: 1.1, 1.2
  stage::neighbour_weights weights = stage::neighbour_weights::squared_norms;  ///< the authors' code: clipped_norms
};
using checkfree = parallel::elastic_pipeline<stage::recovery::neighbour_init, stage::one_f_one_b>;
CAUSEWAY_DECL [[nodiscard]] checkfree make(const checkfree_options& o);

/// CheckFree+ (Blagoev et al., 2025): half of the micro-batches go the other way round through the first two stages of
/// blocks, and through the last two, so that each of such two can be made up as a copy of the other; those between as in
/// CheckFree. Embedding and output layer are on a peer of their own, as in the authors' code, where it is never lost: build
/// the model with `joined_ends`. Where no pipeline has them any more the run goes back to saved blocks, or waits; the
/// paper's copies of these at the ends' neighbours are not here.
///
/// Formula:
///   S stages between the ends; micro-batches 1, 3, 5, ... go through 2, 1, 3, ..., S−2, S, S−1
///   stage i lost, i in {1, 2, S−1, S}: x_i ← x_j, j the other of {1, 2} or {S−1, S};  others as CheckFree
///   from then on: λ_i = 1.1 λ, however often it is lost;  its optimizer begins anew
///   else g = Σ over all micro-batches / B;  x ← optimizer(x, g)
/// Sent: activations and gradients of a boundary, those of the last stage to the first peer; gradients among who has a
/// stage; after a loss the stage to copy to who takes it over.
struct checkfree_plus_options {
  std::int64_t micro_batches = 32;  ///< of the global batch
  std::int64_t stages = 4;          ///< of blocks, in each pipeline; one peer more
  float rate_factor = 1.1F;         ///< of the learning rate of a stage that was made up; the code: 1.1, 1.2
  stage::neighbour_weights weights = stage::neighbour_weights::squared_norms;  ///< the authors' code: clipped_norms
  std::optional<io::any_storage> storage{};  ///< shared by machines, or one for each: for when the ends are lost
};
using checkfree_plus = parallel::elastic_pipeline<stage::recovery::swapped_neighbours, stage::one_f_one_b>;
CAUSEWAY_DECL [[nodiscard]] checkfree_plus make(const checkfree_plus_options& o);

}}}  // namespace causeway::CAUSEWAY_ABI::presets

#ifndef CAUSEWAY_COMPILED
#include <causeway/presets/impl/elastic_pipelines.ipp>
#endif

#endif  // CAUSEWAY_PRESETS_ELASTIC_PIPELINES_HPP
