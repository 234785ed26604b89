// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PLAN_RECOVERY_HPP
#define CAUSEWAY_PLAN_RECOVERY_HPP

// What policies against lost stages have in common: the job that they keep going, what it costs to go on, and what a
// policy answers when peers come and go. The policies are in recovery_*.hpp; they decide and compute, and do nothing:
// preemption_replay.hpp runs them against a trace. All keep the global batch: with fewer pipelines each does more
// micro-batches.

#include <causeway/config/config.hpp>
#include <causeway/core/result.hpp>
#include <causeway/plan/link_matrix.hpp>
#include <causeway/plan/routed_time.hpp>
#include <causeway/plan/stage_costs.hpp>
#include <causeway/plan/stage_split.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan {

/// A model, how it is trained, and what going on costs. Peers are alike, and so are their links.
struct recovery_job {
  model_cost model;                      ///< seconds of a micro-batch; memory: what is copied or saved
  double forward_share = 0.;             ///< of a block's seconds; both halves of the backward take as long as each other
  std::size_t micro_batches = 1;         ///< of the global batch
  std::size_t micro_batch = 1;           ///< samples
  double boundary_bytes = 0;             ///< of activations between stages, per micro-batch
  double gradient_bytes = 2;             ///< per parameter, when pipelines average
  link_cost link;                        ///< between any two peers
  double detection = 0;                  ///< seconds until a loss is noticed
  double restart = 0;                    ///< seconds to end all processes and have them meet again
  double regroup = 0;                    ///< seconds to change who is whose neighbour, without ending processes
  double read_bytes_per_second = 1e18;   ///< of a checkpoint, by each peer
  double write_bytes_per_second = 1e18;  ///< of a checkpoint, by each peer, while it computes
  double checkpoint_stall = 0;           ///< seconds in which nothing is computed for each checkpoint
  std::size_t checkpoint_steps = 1;      ///< at least so many between checkpoints; the last must have been written

  [[nodiscard]] double samples() const { return static_cast<double>(micro_batches * micro_batch); }
  /// Of one sample on one peer that does all the model and never waits.
  CAUSEWAY_DECL [[nodiscard]] double sample_seconds() const;
};

/// What becomes of the step that is under way.
enum class step_fate : std::uint8_t {
  goes_on,         ///< what was computed of it stays
  begins_again,    ///< from its first sample
  from_checkpoint  ///< and so do all since the last checkpoint that was written whole
};

/// A policy's answer.
struct recovery_action {
  double pause = 0;  ///< seconds from now in which nothing is computed
  step_fate fate = step_fate::goes_on;
  double repeated_steps = 0;  ///< that must be done once more to be where training was: weights were lost and made up
};

/// Decides what happens when peers leave and come. `changed` is asked once for all that happens at one moment, with sorted
/// ids; `boundary` after each step; `step_seconds` is infinite if no step can be done; `checkpoint_bytes`: what the peer
/// with the most writes, 0: the policy makes no checkpoints.
template <class P>
concept recovery_policy = requires(P& p, const P& c, std::span<const std::uint32_t> peers) {
  { p.changed(peers, peers) } -> std::same_as<recovery_action>;
  { p.boundary() } -> std::same_as<recovery_action>;
  { c.step_seconds() } -> std::same_as<double>;
  { c.checkpoint_bytes() } -> std::same_as<double>;
};

inline constexpr double no_step = std::numeric_limits<double>::infinity();

/// A model cut into stages of equal peers. Keeps a pointer to the job, as the policies do: it must outlive them.
class cut_job {
 public:
  /// The slowest stage is as quick as can be. errc::invalid_argument: more stages than blocks.
  CAUSEWAY_DECL static result<cut_job> make(const recovery_job& job, std::size_t stages);

  [[nodiscard]] const recovery_job& job() const { return *job_; }
  [[nodiscard]] std::size_t stages() const { return costs_.stages.size(); }
  [[nodiscard]] const stage_costs& costs() const { return costs_; }
  [[nodiscard]] double state_bytes() const { return state_; }  ///< of the largest stage
  [[nodiscard]] double copy_seconds() const { return job_->link.seconds(state_); }
  [[nodiscard]] double load_seconds() const { return state_ / job_->read_bytes_per_second; }

  /// A ring all-reduce of the largest stage over `replicas`.
  CAUSEWAY_DECL [[nodiscard]] double average_seconds(std::size_t replicas) const;

  /// The micro-batches of the pipeline with the most, of `replicas`.
  [[nodiscard]] std::size_t share(std::size_t replicas) const { return (job_->micro_batches + replicas - 1) / replicas; }

  /// A step of `replicas` whole pipelines in 1F1B.
  CAUSEWAY_DECL [[nodiscard]] double step_seconds(std::size_t replicas) const;

 private:
  cut_job() = default;

  const recovery_job* job_ = nullptr;
  stage_costs costs_;
  double state_ = 0, parameters_ = 0;
};

namespace detail {

/// Takes `gone` out of `from`; both keep their order. How many were there.
CAUSEWAY_DECL std::size_t take_out(std::vector<std::uint32_t>& from, std::span<const std::uint32_t> gone);

}  // namespace detail

}}}  // namespace causeway::CAUSEWAY_ABI::plan

#ifndef CAUSEWAY_COMPILED
#include <causeway/plan/impl/recovery.ipp>
#endif

#endif  // CAUSEWAY_PLAN_RECOVERY_HPP
