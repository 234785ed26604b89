// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_AXIS_BY_CHANGE_HPP
#define CAUSEWAY_AXIS_BY_CHANGE_HPP

// A trigger that gives fragments their turn by how much they change (CoCoDC's adaptive transmission, 2025): what moves
// travels more often than what rests, within the number of exchanges that the link carries.

#include <causeway/axis/every.hpp>
#include <causeway/core/error.hpp>
#include <causeway/core/result.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace axis {

struct by_change_options {
  std::uint32_t local_steps = 100;  ///< H: every fragment travels at least once in so many inner steps, or a few more
  std::uint32_t exchanges = 0;      ///< N in H inner steps, of all fragments together; 0: as many as there are fragments
};

/// An exchange every floor(H/N) inner steps, of one fragment: the first that has waited H steps or more; else the one that
/// changed most per inner step when it travelled last, |mean| / |shared parameters| / steps, where fragments that never
/// travelled come first. Fragments under way are passed over. All peers see the same means, so they choose alike. As in the
/// authors' code (github.com/isaacveg/crosstrain, 05b30e6) but for the measure: that takes how far the peers' live
/// parameters are from the shared ones, which costs an exchange of its own.
class by_change {
 public:
  static constexpr part decides = part::trigger;
  static constexpr bool watches_movement = true;

  CAUSEWAY_DECL explicit by_change(by_change_options options = {});

  [[nodiscard]] const by_change_options& options() const noexcept { return options_; }

  /// N for a link on which an exchange of one fragment takes `exchange_seconds`, of which `share` is to be used (CoCoDC's
  /// γ): N = share · H · t_step / t_exchange, at least one for each fragment and at most one a step.
  CAUSEWAY_DECL [[nodiscard]] static std::uint32_t exchanges_for(std::uint32_t local_steps, double step_seconds,
                                                                 double exchange_seconds, std::size_t fragments,
                                                                 double share = 1);

  CAUSEWAY_DECL [[nodiscard]] result<void> check(std::size_t count) const;
  [[nodiscard]] std::uint32_t first(std::size_t, std::size_t) const noexcept { return options_.local_steps; }
  [[nodiscard]] std::uint32_t next(std::size_t, std::size_t) const noexcept { return options_.local_steps; }

  /// One inner step more. `is_busy(f)`: fragment f is under way.
  void step(std::size_t count, auto&& is_busy) {
    turns_.resize(count);
    for (turn& t : turns_) ++t.since;
    chosen_ = none;
    if (++clock_ < options_.local_steps / slots(count)) return;
    clock_ = 0;
    for (std::size_t f = 0; f < count; ++f) {
      if (!is_busy(f) && (chosen_ == none || comes_before(turns_[f], turns_[chosen_]))) chosen_ = f;
    }
    if (chosen_ != none) turns_[chosen_].interval = std::exchange(turns_[chosen_].since, 0U);
  }

  /// Whether fragment f is due in this step.
  [[nodiscard]] bool chosen(std::size_t f) const noexcept { return chosen_ == f; }

  /// The same where the exchange before it is over: up to the step in which the next one is due, and how many that are.
  CAUSEWAY_DECL std::uint32_t step_to_next(std::size_t count);

  result<void> exchanged(auto&, const exchange_report& report) {
    if (report.fragment < turns_.size()) {
      turn& t = turns_[report.fragment];
      t.rate = report.movement / std::max(t.interval, 1U);
    }
    return {};
  }

  void serialize(auto& ar) {
    std::uint64_t count = turns_.size();
    ar(count, clock_, chosen_);
    if (turns_.size() > count) turns_.resize(count);
    for (std::size_t i = 0; i < count; ++i) {  // one by one: a count without bytes behind it takes no memory
      if (i == turns_.size()) turns_.emplace_back();
      turns_[i].serialize(ar);
    }
  }
  /// What all peers have alike, in memory of its own.
  void shared(auto& ar) {
    ar(clock_, chosen_);
    for (turn& t : turns_) t.serialize(ar);
  }

 private:
  static constexpr std::uint64_t none = std::numeric_limits<std::uint64_t>::max();
  struct turn {
    std::uint32_t since = 0;     ///< inner steps since it was chosen
    std::uint32_t interval = 0;  ///< between the last two times
    double rate = std::numeric_limits<double>::infinity();

    void serialize(auto& ar) { ar(since, interval, rate); }
  };

  [[nodiscard]] std::size_t slots(std::size_t count) const { return options_.exchanges == 0 ? count : options_.exchanges; }

  CAUSEWAY_DECL [[nodiscard]] bool comes_before(const turn& a, const turn& b) const;

  by_change_options options_;
  std::vector<turn> turns_;
  std::uint64_t clock_ = 0;  ///< inner steps since the last exchange
  std::uint64_t chosen_ = none;
};
static_assert(Trigger<by_change>);

}}}  // namespace causeway::CAUSEWAY_ABI::axis

#ifndef CAUSEWAY_COMPILED
#include <causeway/axis/impl/by_change.ipp>
#endif

#endif  // CAUSEWAY_AXIS_BY_CHANGE_HPP
