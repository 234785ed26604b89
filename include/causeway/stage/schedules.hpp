// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_STAGE_SCHEDULES_HPP
#define CAUSEWAY_STAGE_SCHEDULES_HPP

// Schedules as types, for parallel::pipeline: which order of plan/, and whether a rank may deviate from it while it waits.
// docs/reference/schedules.md shows a picture of each.

#include <causeway/config/config.hpp>
#include <causeway/core/result.hpp>
#include <causeway/plan/schedule.hpp>
#include <causeway/plan/schedule_cursor.hpp>
#include <causeway/plan/schedules.hpp>

#include <concepts>
#include <cstdint>
#include <string_view>

namespace causeway::inline CAUSEWAY_ABI::stage {

/// What the rules must know of a schedule.
struct schedule_traits {
  plan::run_order order = plan::run_order::strict;
  bool splits_backward = false;  ///< has weight gradients of their own
};

/// - `make(ranks, micro_batches)`: the order of every rank, or why there is none with these numbers.
/// - `chunks`: parts of the model that every rank holds.
template <class S>
concept Schedule = std::movable<S> && std::default_initializable<S> && requires(const S& s, std::uint32_t n) {
  { S::name } -> std::convertible_to<std::string_view>;
  { S::traits } -> std::same_as<const schedule_traits&>;
  { s.chunks() } -> std::same_as<std::uint32_t>;
  { s.make(n, n) } -> std::same_as<result<plan::schedule>>;
};

/// All forwards, then all backwards (Huang et al., NeurIPS 2019).
struct gpipe {
  static constexpr std::string_view name = "gpipe";
  static constexpr schedule_traits traits{};
  [[nodiscard]] static constexpr std::uint32_t chunks() noexcept { return 1; }
  [[nodiscard]] static result<plan::schedule> make(std::uint32_t ranks, std::uint32_t micro_batches) {
    return plan::gpipe(ranks, micro_batches);
  }
};

/// One forward, one backward, with a flush (Narayanan et al., ICML 2021).
struct one_f_one_b {
  static constexpr std::string_view name = "1f1b";
  static constexpr schedule_traits traits{};
  [[nodiscard]] static constexpr std::uint32_t chunks() noexcept { return 1; }
  [[nodiscard]] static result<plan::schedule> make(std::uint32_t ranks, std::uint32_t micro_batches) {
    return plan::one_f_one_b(ranks, micro_batches);
  }
};

/// 1F1B with several chunks of the model on each rank (Narayanan et al., SC 2021). Micro-batches must be a multiple of the
/// ranks.
template <std::uint32_t Chunks = 2>
struct interleaved {
  static constexpr std::string_view name = "interleaved";
  static constexpr schedule_traits traits{};
  [[nodiscard]] static constexpr std::uint32_t chunks() noexcept { return Chunks; }
  [[nodiscard]] static result<plan::schedule> make(std::uint32_t ranks, std::uint32_t micro_batches) {
    return plan::interleaved(ranks, Chunks, micro_batches);
  }
};

/// ZB-H1: the weight gradients fill the bubble (Qi et al., ICLR 2024).
struct zero_bubble {
  static constexpr std::string_view name = "zero_bubble";
  static constexpr schedule_traits traits{.splits_backward = true};
  [[nodiscard]] static constexpr std::uint32_t chunks() noexcept { return 1; }
  [[nodiscard]] static result<plan::schedule> make(std::uint32_t ranks, std::uint32_t micro_batches) {
    return plan::zero_bubble(ranks, micro_batches);
  }
};

/// Another schedule whose ranks, while they wait for an input, run what is ready (Varuna's rule, EuroSys 2022): for links
/// with jitter.
template <Schedule Base>
struct opportunistic : Base {
  static constexpr schedule_traits traits{.order = plan::run_order::opportunistic,
                                          .splits_backward = Base::traits.splits_backward};
};

static_assert(Schedule<gpipe> && Schedule<one_f_one_b> && Schedule<interleaved<>> && Schedule<zero_bubble>);
static_assert(Schedule<opportunistic<one_f_one_b>>);

}  // namespace causeway::inline CAUSEWAY_ABI::stage

#endif  // CAUSEWAY_STAGE_SCHEDULES_HPP
