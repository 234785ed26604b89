// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_FAULT_RESTART_HPP
#define CAUSEWAY_FAULT_RESTART_HPP

// A lost peer ends the attempt, not the run: all peers come together again and go on from the newest round that all of them
// hold in their checkpoints.

#include <causeway/core/result.hpp>
#include <causeway/policy/concepts.hpp>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string_view>
#include <type_traits>
#include <utility>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace fault {

struct restart_options {
  std::uint32_t in_vain = 3;  ///< attempts in a row that get no further than one before them; then the error stands
};

/// Judges as fail_stop does: commits every step that succeeded and aborts at the first that did not. Notes how far it came,
/// for `with_restarts`, which begins the next attempt. Alone it is fail_stop. Keeps no copies and sends nothing.
///
/// Copies share what they note: use all of them on one thread.
class restart {
 public:
  static constexpr std::string_view name = "restart";
  static constexpr fault_traits traits{};
  static constexpr std::uint32_t state_version = 1;

  restart() = default;
  /// `furthest`: the largest step that any attempt has reached.
  explicit restart(std::shared_ptr<std::uint64_t> furthest) : furthest_{std::move(furthest)} {}

  result<void> begin_step(auto&) { return {}; }
  result<verdict> end_step(auto& ctx, const result<void>& outcome) {
    if (!outcome) return verdict::abort;
    reached(ctx.step());
    return verdict::commit;
  }

  /// For programs whose trainer has another fault policy: so many steps are made.
  void reached(std::uint64_t step) const {
    if (furthest_) *furthest_ = std::max(*furthest_, step);
  }

  void serialize(auto&) {}

 private:
  std::shared_ptr<std::uint64_t> furthest_;
};
static_assert(FaultPolicy<restart>);

/// Whether an error says that another peer is gone or silent, so that all may come together again.
constexpr bool comes_from_others(errc code) noexcept {
  return code == errc::peer_lost || code == errc::timeout || code == errc::unreachable;
}

/// Calls `attempt(restart)`, which returns a result, until it succeeds, fails by an error that does not come from others,
/// or has failed `in_vain` times in a row without getting further than before. Gives what the last attempt gave.
///
/// Every attempt makes all anew: transport, model, trainer. What was trained comes from checkpoints, from the newest round
/// that all peers hold (train/common_cut.hpp). Every peer of the run needs this loop, or somebody who starts it again.
/// Costs nothing between failures; a failure costs the steps since that round. Runs on the thread that calls it.
template <class Attempt>
[[nodiscard]] std::invoke_result_t<Attempt&, restart> with_restarts(Attempt attempt, restart_options options = {}) {
  const auto furthest = std::make_shared<std::uint64_t>(0);
  for (std::uint32_t in_vain = 0;;) {
    const std::uint64_t before = *furthest;
    auto outcome = attempt(restart{furthest});
    if (outcome || !comes_from_others(outcome.error().code)) return outcome;
    in_vain = *furthest > before ? 0 : in_vain + 1;
    if (in_vain >= options.in_vain) return outcome;
  }
}

}}}  // namespace causeway::CAUSEWAY_ABI::fault

#endif  // CAUSEWAY_FAULT_RESTART_HPP
