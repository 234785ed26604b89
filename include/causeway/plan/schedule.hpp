// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PLAN_SCHEDULE_HPP
#define CAUSEWAY_PLAN_SCHEDULE_HPP

// A pipeline's schedule as data: what each rank does with the micro-batches of one step, in order. Generators write it
// (schedules.hpp), one validator reads it (schedule_check.hpp), one cursor walks it at run time and in simulation
// (schedule_cursor.hpp, timeline.hpp). A schedule says nothing about time.

#include <causeway/config/config.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan {

/// What a rank can do with one micro-batch and one of its chunks.
enum class work : std::uint8_t {
  forward,          ///< keeps its activations, unless the same rank recomputes them later: then only its input
  backward,         ///< both gradients: of the input and of the weights
  input_gradient,   ///< the half of a backward that the stage before waits for
  weight_gradient,  ///< the other half: any time after the input gradient
  recompute,        ///< the activations again, from the stored input
};

/// One item of a rank's order.
struct operation {
  work kind = work::forward;
  std::uint32_t micro_batch = 0;
  std::uint32_t chunk = 0;  ///< which of the rank's chunks of the model

  friend bool operator==(const operation&, const operation&) = default;
};

/// The way of a micro-batch through ranks and chunks.
enum class stage_path : std::uint8_t {
  round,    ///< chunk c of rank p is virtual stage c * ranks + p: through all ranks, and through all of them again
  folded,   ///< every other chunk runs through the ranks backwards: rank 0 of two chunks has the first stage and the last,
            ///< and the last rank hands the first chunk's output to itself
  two_ways  ///< two chunks, each a stage of a whole pipeline: the first half of the micro-batches (the larger one) goes
            ///< from the first rank to the last through chunks 0, the others from the last to the first through chunks 1.
            ///< Stage s is on ranks s and ranks - 1 - s, whose gradients are added up
};

/// What each rank of a pipeline does with the micro-batches of one step, in order. The forward pass runs through virtual
/// stages 0, 1, ..., the backward pass the other way; where those are, `path` says.
struct schedule {
  std::uint32_t ranks = 1;
  std::uint32_t chunks = 1;  ///< of the model, on each rank
  std::uint32_t micro_batches = 1;
  bool flushes = true;  ///< one update at the end. False: a stage updates after each micro-batch's weight gradient
  std::vector<std::vector<operation>> orders;  ///< [rank]
  stage_path path = stage_path::round;

  friend bool operator==(const schedule&, const schedule&) = default;
};

/// A place where an operation runs.
struct stage_place {
  std::uint32_t rank = 0;
  std::uint32_t chunk = 0;

  friend bool operator==(const stage_place&, const stage_place&) = default;
};

/// How many virtual stages a schedule has.
[[nodiscard]] constexpr std::uint32_t virtual_stages(const schedule& s) noexcept {
  return s.path == stage_path::two_ways ? s.ranks : s.ranks * s.chunks;
}

/// The first micro-batch that goes from the last rank to the first, where there are two ways.
[[nodiscard]] constexpr std::uint32_t first_back(const schedule& s) noexcept { return (s.micro_batches + 1) / 2; }

/// Whether a micro-batch goes through a chunk.
[[nodiscard]] constexpr bool goes_through(const schedule& s, std::uint32_t micro_batch, std::uint32_t chunk) noexcept {
  return s.path != stage_path::two_ways || (micro_batch >= first_back(s)) == (chunk == 1);
}

/// The virtual stage of a place.
[[nodiscard]] constexpr std::uint32_t virtual_stage(const schedule& s, stage_place at) noexcept {
  const std::uint32_t rank = s.path != stage_path::round && at.chunk % 2 == 1 ? s.ranks - 1 - at.rank : at.rank;
  return s.path == stage_path::two_ways ? rank : at.chunk * s.ranks + rank;
}

/// The place of a virtual stage, for a micro-batch: only where there are two ways does it matter which.
[[nodiscard]] constexpr stage_place place_of(const schedule& s, std::uint32_t stage,
                                             std::uint32_t micro_batch = 0) noexcept {
  const bool back = s.path == stage_path::two_ways && micro_batch >= first_back(s);
  const std::uint32_t chunk = back ? 1 : stage / s.ranks, rank = stage % s.ranks;
  return {s.path != stage_path::round && chunk % 2 == 1 ? s.ranks - 1 - rank : rank, chunk};
}

/// Whether an operation gives the gradient of the stage's input.
[[nodiscard]] constexpr bool gives_input_gradient(work kind) noexcept {
  return kind == work::backward || kind == work::input_gradient;
}

/// Whether an operation adds to the gradient of the stage's weights.
[[nodiscard]] constexpr bool gives_weight_gradient(work kind) noexcept {
  return kind == work::backward || kind == work::weight_gradient;
}

/// Where the input of `op` on `rank` comes from: the stage before for a forward, the stage after for a gradient; nothing
/// for what needs only what the rank itself holds, as the data set for the first stage and the loss for the last.
/// May be the same rank (`ranks` = 1, or where the path is folded).
[[nodiscard]] constexpr std::optional<stage_place> source_of(const schedule& s, std::uint32_t rank,
                                                             const operation& op) noexcept {
  const std::uint32_t stage = virtual_stage(s, {rank, op.chunk});
  if (op.kind == work::forward && stage > 0) return place_of(s, stage - 1, op.micro_batch);
  if (gives_input_gradient(op.kind) && stage + 1 < virtual_stages(s)) return place_of(s, stage + 1, op.micro_batch);
  return std::nullopt;
}

/// Where the output of `op` on `rank` goes, or nothing.
[[nodiscard]] constexpr std::optional<stage_place> target_of(const schedule& s, std::uint32_t rank,
                                                             const operation& op) noexcept {
  const std::uint32_t stage = virtual_stage(s, {rank, op.chunk});
  if (op.kind == work::forward && stage + 1 < virtual_stages(s)) return place_of(s, stage + 1, op.micro_batch);
  if (gives_input_gradient(op.kind) && stage > 0) return place_of(s, stage - 1, op.micro_batch);
  return std::nullopt;
}

/// The letter of a kind: F, B, I, W, R.
[[nodiscard]] constexpr char letter(work kind) noexcept {
  switch (kind) {
    case work::forward: return 'F';
    case work::backward: return 'B';
    case work::input_gradient: return 'I';
    case work::weight_gradient: return 'W';
    case work::recompute: return 'R';
  }
  return '?';
}

/// "F3", and "F3.1" in chunk 1.
CAUSEWAY_DECL [[nodiscard]] std::string to_string(const operation& op);

/// What a rank holds, in units of one micro-batch in one chunk.
struct held_memory {
  std::int64_t activations = 0;  ///< from a forward or recompute to the weight gradient
  std::int64_t inputs = 0;       ///< of forwards whose activations are recomputed, up to the recompute

  constexpr held_memory& operator+=(const held_memory& other) noexcept {
    activations += other.activations;
    inputs += other.inputs;
    return *this;
  }
  [[nodiscard]] constexpr bool within(const held_memory& bound) const noexcept {
    return activations <= bound.activations && inputs <= bound.inputs;
  }
  friend bool operator==(const held_memory&, const held_memory&) = default;
};

/// The larger of each.
[[nodiscard]] constexpr held_memory larger(const held_memory& a, const held_memory& b) noexcept {
  return {std::max(a.activations, b.activations), std::max(a.inputs, b.inputs)};
}

/// What each operation of a rank adds to (or frees from) what the rank holds. Operations must name micro-batches and
/// chunks that the schedule has.
CAUSEWAY_DECL [[nodiscard]] std::vector<held_memory> memory_changes(const schedule& s, std::uint32_t rank);

/// The most that a rank holds at one time if it follows its order.
CAUSEWAY_DECL [[nodiscard]] held_memory peak_memory(const schedule& s, std::uint32_t rank);

}}}  // namespace causeway::CAUSEWAY_ABI::plan

#ifndef CAUSEWAY_COMPILED
#include <causeway/plan/impl/schedule.ipp>
#endif

#endif  // CAUSEWAY_PLAN_SCHEDULE_HPP
