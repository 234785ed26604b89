// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_COMM_STACKED_HPP
#define CAUSEWAY_COMM_STACKED_HPP

// Two communication policies in one run, one after the other in every hook: SPARTA between the rounds of DiLoCo, a mean of
// the inner optimizer's moments beside one of parameters.

#include <causeway/comm/stacked_turns.hpp>
#include <causeway/core/result.hpp>
#include <causeway/policy/traits.hpp>
#include <causeway/tensor/parameters.hpp>

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace comm {

namespace detail {

template <class T>
[[nodiscard]] std::vector<T> joined(std::vector<T> all, std::vector<T> more) {
  all.insert(all.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
  return all;
}

}  // namespace detail

/// `First`, then `Second`, in each hook. What they exchange must differ in kind (gradients, parameters, pseudo-gradients),
/// so that their messages cannot be mistaken for each other. Replicas are identical where the second's are, after its
/// rounds. Bytes, rounds and state: the sum. A hook that failed goes on where it stopped.
///
/// Peers may come and go if both policies are comm::rounds that let them (comm_traits::takes_turns): see
/// comm/stacked_turns.hpp. That takes 4 more bytes a value, and in a turn of both, while it lasts, what the first one is
/// applied to again. Rows count by the samples since the last record, of whichever policy; in pipelines, where one of the
/// two divides batches (one at most: rule C7), by those since their own policy's last exchange.
template <class First, class Second>
class stacked {
  static_assert(!First::traits.looks_ahead && !Second::traits.looks_ahead,
                "a policy that looks ahead must be the trainer's own: nobody else asks it for gradients");
  static constexpr bool elastic = First::traits.takes_turns && Second::traits.takes_turns;
  template <class P>
  static constexpr bool in_stages = P::traits.rounds_by_steps || P::traits.rounds_over_stages;
  static constexpr bool first_divides = First::traits.divides_batches, second_divides = Second::traits.divides_batches;

 public:
  static constexpr std::string_view name = "stacked";
  static constexpr comm_traits traits{
      .tolerates = elastic ? peers::elastic : peers::fixed,
      .exchanges_gradients = First::traits.exchanges_gradients || Second::traits.exchanges_gradients,
      .identical_replicas = Second::traits.identical_replicas,
      .rounds_by_steps = First::traits.rounds_by_steps && Second::traits.rounds_by_steps,
      .rounds_over_stages = in_stages<First> && in_stages<Second>,
      .allows_late_steps = elastic && First::traits.allows_late_steps && Second::traits.allows_late_steps,
      // A batch is divided once: two policies would say different parts.
      .moves_with_blocks = elastic && First::traits.moves_with_blocks && Second::traits.moves_with_blocks &&
                           !(first_divides && second_divides),
      .rows_in_parts = elastic && First::traits.rows_in_parts && Second::traits.rows_in_parts,
      .gathers_samples = First::traits.gathers_samples || Second::traits.gathers_samples,
      .rounds_by_clock = First::traits.rounds_by_clock || Second::traits.rounds_by_clock,
      .divides_batches = first_divides || second_divides};
  static constexpr std::uint32_t state_version = 2;

  explicit stacked(First first = First{}, Second second = Second{})
      : first_{std::move(first)}, second_{std::move(second)} {}

  [[nodiscard]] First& first() noexcept { return first_; }
  [[nodiscard]] Second& second() noexcept { return second_; }

  result<void> start(auto& ctx) {
    CAUSEWAY_TRY(first_.start(ctx));
    CAUSEWAY_TRY(second_.start(ctx));
    if constexpr (elastic) {
      if (ctx.elastic()) turns_.found(ctx, first_.turn_part(), second_.turn_part());
    }
    return {};
  }
  /// As rounds, of the policy that divides batches: the first, if both do.
  [[nodiscard]] std::optional<index_range> part_of_batch() const { return dividing(*this).part_of_batch(); }
  [[nodiscard]] std::vector<std::size_t> parts_for(const std::vector<double>& speeds) const {
    return dividing(*this).parts_for(speeds);
  }

  result<void> before_inner_step(auto& ctx) {
    return both([&](auto& policy) { return policy.before_inner_step(ctx); });
  }
  result<void> after_inner_step(auto& ctx) {
    if constexpr (elastic) {
      if (ctx.elastic()) return take_turns(ctx);
    }
    return both([&](auto& policy) { return policy.after_inner_step(ctx); });
  }
  result<void> finish(auto& ctx) {
    return both([&](auto& policy) { return policy.finish(ctx); });
  }

  void serialize(auto& ar) { ar(first_, second_, first_done_, turns_); }

  void shared(auto& ar) {
    turns_.shared(ar);
    first_.shared(ar);
    second_.shared(ar);
  }
  /// Neither moves the live parameters along: that is done once, by what all hold alike of them.
  void adopt(auto& ctx, std::span<const float> previous) {
    const bool keeps = !previous.empty();
    first_.adopt(ctx, keeps ? first_.followed() : previous);
    second_.adopt(ctx, keeps ? second_.followed() : previous);
    turns_.follow(ctx, previous);
    counted_ = counted_ && keeps;
  }
  result<void> catch_up(auto& ctx) { return turns_.catch_up(ctx, first_.turn_part(), second_.turn_part()); }

  // Where blocks of the model move between peers: what rounds has there, of both.

  [[nodiscard]] std::vector<parameter_row> block_rows() {
    auto rows = detail::joined(first_.block_rows(), second_.block_rows());
    rows.insert(rows.begin(), parameter_row{{turns_.alike()}});
    return rows;
  }
  result<void> divide(auto& ctx, std::span<const parameter_segment> before) {
    turns_.divide(ctx, before);
    CAUSEWAY_TRY(first_.divide(ctx, before));
    return second_.divide(ctx, before);
  }
  [[nodiscard]] std::vector<std::span<std::byte>> memory() { return detail::joined(first_.memory(), second_.memory()); }
  result<void> forget(auto& ctx) {
    CAUSEWAY_TRY(first_.forget(ctx));
    return second_.forget(ctx);
  }
  [[nodiscard]] bool exchanges_next() { return first_.exchanges_next() || second_.exchanges_next(); }
  [[nodiscard]] static std::optional<bool> row_waits() { return {}; }

 private:
  [[nodiscard]] static const auto& dividing(const stacked& s) {
    if constexpr (second_divides && !first_divides) {
      return s.second_;
    } else {
      return s.first_;
    }
  }
  result<void> take_turns(auto& ctx) {
    if (!counted_) {
      first_.count_step(ctx);
      second_.count_step(ctx);
      counted_ = true;
    }
    CAUSEWAY_TRY(turns_.visit(ctx, first_.turn_part(), second_.turn_part()));
    counted_ = false;
    return {};
  }
  result<void> both(auto&& hook) {
    if (!first_done_) CAUSEWAY_TRY(hook(first_));
    first_done_ = true;
    CAUSEWAY_TRY(hook(second_));
    first_done_ = false;
    return {};
  }

  First first_;
  Second second_;
  bool first_done_ = false;  // in a hook that is called again
  detail::stacked_turns turns_;
  bool counted_ = false;  // this inner step is in both counters already; where peers come and go
};

}}}  // namespace causeway::CAUSEWAY_ABI::comm

#endif  // CAUSEWAY_COMM_STACKED_HPP
