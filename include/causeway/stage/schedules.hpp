// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_STAGE_SCHEDULES_HPP
#define CAUSEWAY_STAGE_SCHEDULES_HPP

// Schedules as types, for parallel::pipeline: which order of plan/, and whether a rank may deviate from it while it waits.
// docs/reference/schedules.md shows a picture of each.

#include <causeway/config/config.hpp>
#include <causeway/core/concepts.hpp>
#include <causeway/core/error.hpp>
#include <causeway/core/result.hpp>
#include <causeway/plan/schedule.hpp>
#include <causeway/plan/schedule_cursor.hpp>
#include <causeway/plan/schedule_greedy.hpp>
#include <causeway/plan/schedule_varuna.hpp>
#include <causeway/plan/schedules.hpp>
#include <causeway/plan/stage_costs.hpp>
#include <causeway/plan/two_way_schedules.hpp>

#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace stage {

/// - `path()`, if it has one: which chunks a rank holds. Without it, plan::stage_path::round.
/// - `make(ranks, micro_batches)`: the order of every rank, or why there is none with these numbers.
/// - `chunks()`: parts of the model that every rank holds.
/// - `order()`: whether a rank may run what is ready while it waits for what is next.
/// - `room()`: micro-batches that a rank may hold beyond what its order needs, so that an opportunistic rank can run ahead.
template <class S>
concept Schedule = Movable<S> && DefaultInitializable<S> && requires(const S& s, std::uint32_t n) {
  { S::name } -> ConvertibleTo<std::string_view>;
  { s.chunks() } -> std::same_as<std::uint32_t>;
  { s.order() } -> std::same_as<plan::run_order>;
  { s.room() } -> std::same_as<std::uint32_t>;
  { s.make(n, n) } -> std::same_as<result<plan::schedule>>;
};

/// How micro-batches go through the chunks of a schedule.
template <Schedule S>
[[nodiscard]] constexpr plan::stage_path path_of(const S& s) {
  if constexpr (requires { s.path(); }) return s.path();
  return plan::stage_path::round;
}

/// What orders have that are written once for all: so many chunks, in strict order, and no room beyond what it needs.
template <std::uint32_t Chunks>
struct fixed_order {
  [[nodiscard]] static constexpr std::uint32_t chunks() noexcept { return Chunks; }
  [[nodiscard]] static constexpr plan::run_order order() noexcept { return plan::run_order::strict; }
  [[nodiscard]] static constexpr std::uint32_t room() noexcept { return 0; }
};

/// One that `Write` gives for so many ranks and micro-batches.
template <result<plan::schedule> (*Write)(std::uint32_t, std::uint32_t), std::uint32_t Chunks = 1>
struct written_order : fixed_order<Chunks> {
  [[nodiscard]] static result<plan::schedule> make(std::uint32_t ranks, std::uint32_t micro_batches) {
    return Write(ranks, micro_batches);
  }
};

/// All forwards, then all backwards (Huang et al., NeurIPS 2019).
struct gpipe : written_order<plan::gpipe> {
  static constexpr std::string_view name = "gpipe";
};

/// One forward, one backward, with a flush (Narayanan et al., ICML 2021).
struct one_f_one_b : written_order<plan::one_f_one_b> {
  static constexpr std::string_view name = "1f1b";
};

/// 1F1B with several chunks of the model on each rank (Narayanan et al., SC 2021). Micro-batches must be a multiple of the
/// ranks.
template <std::uint32_t Chunks = 2>
struct interleaved : fixed_order<Chunks> {
  static constexpr std::string_view name = "interleaved";
  [[nodiscard]] static result<plan::schedule> make(std::uint32_t ranks, std::uint32_t micro_batches) {
    return plan::interleaved(ranks, Chunks, micro_batches);
  }
};

/// ZB-H1: the weight gradients fill the bubble (Qi et al., ICLR 2024).
struct zero_bubble : written_order<plan::zero_bubble> {
  static constexpr std::string_view name = "zero_bubble";
};

/// ZB-H2: no bubble at all where forwards, input and weight gradients take the same time, for twice the activations (the
/// same paper).
struct zero_bubble_h2 : written_order<plan::zero_bubble_h2> {
  static constexpr std::string_view name = "zero_bubble_h2";
};

/// ZB-V: no such bubble, for the activations of 1F1B: two chunks on each rank, so that the first has both ends of the model
/// (the same paper).
struct zero_bubble_v : written_order<plan::zero_bubble_v, 2> {
  static constexpr std::string_view name = "zero_bubble_v";
  [[nodiscard]] static constexpr plan::stage_path path() noexcept { return plan::stage_path::folded; }
};

/// Micro-batches from both ends at once: half of 1F1B's bubble, for twice the parameters (Li and Hoefler, SC 2021). An even
/// number of ranks and of micro-batches.
struct chimera : written_order<plan::chimera, 2> {
  static constexpr std::string_view name = "chimera";
  [[nodiscard]] static constexpr plan::stage_path path() noexcept { return plan::stage_path::two_ways; }
};

/// From both ends, too, with weight gradients that fill the end (DeepSeek-AI 2024). At least twice as many micro-batches as
/// ranks.
struct dual_pipe : written_order<plan::dual_pipe, 2> {
  static constexpr std::string_view name = "dual_pipe";
  [[nodiscard]] static constexpr plan::stage_path path() noexcept { return plan::stage_path::two_ways; }
};

namespace detail {

/// Costs of one stage a rank: the given ones, or stages that are all alike and links that cost nothing.
CAUSEWAY_DECL [[nodiscard]] result<plan::stage_costs> costs_of(const plan::stage_costs& given, std::uint32_t ranks);

}  // namespace detail

/// Varuna's rule (Athlur et al., EuroSys 2022): stages keep inputs and compute activations again just before their gradient
/// arrives; ranks that wait run what is ready. For links with jitter. A third more compute than 1F1B, little memory.
struct varuna {
  static constexpr std::string_view name = "varuna";
  plan::stage_costs costs{};        ///< measured, of each stage and link; none: stages are alike and links cost nothing
  std::uint32_t stored_inputs = 0;  ///< at most, on each rank; 0: twice the ranks

  [[nodiscard]] static constexpr std::uint32_t chunks() noexcept { return 1; }
  [[nodiscard]] static constexpr plan::run_order order() noexcept { return plan::run_order::opportunistic; }
  [[nodiscard]] static constexpr std::uint32_t room() noexcept { return 0; }
  CAUSEWAY_DECL [[nodiscard]] result<plan::schedule> make(std::uint32_t ranks, std::uint32_t micro_batches) const;
};

/// The shortest order that list scheduling finds on an explicit model of delays and bandwidths, as CrossPipe does
/// (arXiv 2507.00217). Derived from the paper's model, not from its solver.
struct crosspipe {
  static constexpr std::string_view name = "crosspipe";
  plan::stage_costs costs{};      ///< as varuna's
  std::uint32_t activations = 0;  ///< micro-batches that a rank may hold; 0: twice the ranks

  [[nodiscard]] static constexpr std::uint32_t chunks() noexcept { return 1; }
  [[nodiscard]] static constexpr plan::run_order order() noexcept { return plan::run_order::strict; }
  [[nodiscard]] static constexpr std::uint32_t room() noexcept { return 0; }
  CAUSEWAY_DECL [[nodiscard]] result<plan::schedule> make(std::uint32_t ranks, std::uint32_t micro_batches) const;
};

/// Another schedule whose ranks, while they wait for an input, run what is ready. `ahead` micro-batches more than the order
/// needs find room; without room 1F1B gains nothing.
template <Schedule Base>
struct opportunistic : Base {
  std::uint32_t ahead = 4;
  [[nodiscard]] static constexpr plan::run_order order() noexcept { return plan::run_order::opportunistic; }
  [[nodiscard]] constexpr std::uint32_t room() const noexcept { return ahead; }
};

static_assert(Schedule<gpipe> && Schedule<one_f_one_b> && Schedule<interleaved<>>);
static_assert(Schedule<zero_bubble> && Schedule<zero_bubble_h2> && Schedule<zero_bubble_v>);
static_assert(Schedule<chimera> && Schedule<dual_pipe>);
static_assert(Schedule<varuna> && Schedule<crosspipe> && Schedule<opportunistic<one_f_one_b>>);

}}}  // namespace causeway::CAUSEWAY_ABI::stage

#ifndef CAUSEWAY_COMPILED
#include <causeway/stage/impl/schedules.ipp>
#endif

#endif  // CAUSEWAY_STAGE_SCHEDULES_HPP
