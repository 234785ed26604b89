// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PLAN_RESUMED_ORDER_HPP
#define CAUSEWAY_PLAN_RESUMED_ORDER_HPP

// What is left of a pipeline's step, as an order for each rank: of a step that nobody has begun, or of one in which a rank
// was lost and another took over its stage (Bamboo: Thorpe et al., NSDI 2023). List scheduling without links: whatever can
// begin first does, a backward before a forward. Where nothing is done and each stage has its own rank this is 1F1B.
//
// Each stage takes micro-batches in their order, forwards and backwards, so its gradients are added up in the order of the
// undisturbed step, whoever adds them. Among the micro-batches of which something is left, the lowest can always go on: so
// there is no deadlock.
//
// A rank may repeat another one's forwards besides, where the plan has it wait long enough for one: so they delay nobody as
// long as the plan holds.

#include <causeway/config/config.hpp>
#include <causeway/core/error.hpp>
#include <causeway/core/result.hpp>
#include <causeway/plan/schedule.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan {

/// How far one stage is with one micro-batch.
enum class unit_state : std::uint8_t {
  untouched,
  forward,  ///< its activations are kept
  done,     ///< its weights' gradient is in the sum, its input's gradient is kept
};

struct step_progress {
  std::vector<std::uint32_t> owners;           ///< [stage]: the rank that does what is left of it; one may have several
  std::vector<std::vector<unit_state>> units;  ///< [stage][micro-batch], as the owner has it; equally long

  [[nodiscard]] std::size_t stages() const noexcept { return owners.size(); }
  [[nodiscard]] std::size_t micro_batches() const noexcept { return units.empty() ? 0 : units.front().size(); }

  /// Of a step that nobody has begun, with a rank for each stage.
  CAUSEWAY_DECL [[nodiscard]] static step_progress fresh(std::size_t stages, std::size_t micro_batches);
};

/// What one rank does, in which order; an operation's chunk is its stage.
struct rank_plan {
  std::vector<operation> order;
  std::vector<double> begins;  ///< of each: when it can, in forwards
  double end = 0;              ///< of all ranks: when the last operation ends
};

/// What each rank does. Time: what is left, times stages. errc::protocol where nothing that is left can go on, which honest
/// ranks never say.
CAUSEWAY_DECL [[nodiscard]] result<std::vector<rank_plan>> resumed_orders(const step_progress& p);

/// The order of `plan` with forwards of another rank's stage `repeated` in between, of `missing` micro-batches, rising: in
/// idle time, and, with `all`, the others at the end. The input of stage 0 is always there, that of another is what this
/// rank's stage before gives.
CAUSEWAY_DECL [[nodiscard]] std::vector<operation> with_repeats(const rank_plan& plan, std::size_t repeated,
                                                                std::span<const std::uint32_t> missing, bool all);

}}}  // namespace causeway::CAUSEWAY_ABI::plan

#ifndef CAUSEWAY_COMPILED
#include <causeway/plan/impl/resumed_order.ipp>
#endif

#endif  // CAUSEWAY_PLAN_RESUMED_ORDER_HPP
