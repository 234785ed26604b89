// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PLAN_SCHEDULE_CURSOR_HPP
#define CAUSEWAY_PLAN_SCHEDULE_CURSOR_HPP

// What a rank does next: its order of a schedule and what of it is done. In strict order a rank waits for the input of the
// next operation; in opportunistic order (Varuna, EuroSys 2022, section 3.2) it meanwhile runs the first later operation
// whose input is there. What that may not change:
//   - the sums of gradients: operations of the same kind and chunk keep their order, and so do a chunk's backward and its
//     halves, so that micro-batches are added up in the same order and have the same bits;
//   - what an operation needs from the rank itself: operations of the same micro-batch and chunk keep their order;
//   - memory: an operation that takes memory runs early only if all that it overtakes still finds room in the limit, in
//     order. With room for one set of activations nothing but forwards that store their input can come between a
//     recompute and its backward.
// What remains is always a part of the order with its order kept, and has room: so a schedule without deadlock has none
// in opportunistic order either. Both the simulator and the executor of pipelines use this cursor.

#include <causeway/config/config.hpp>
#include <causeway/plan/schedule.hpp>

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan {

/// Whether a rank may run an operation before its turn.
enum class run_order : std::uint8_t { strict, opportunistic };

/// Walks one rank's order. A regular value; allocates only when made; not safe to share between threads.
class schedule_cursor {
 public:
  /// What to do now.
  struct choice {
    std::size_t index = 0;  ///< in the rank's order
    bool ready = false;     ///< run it; otherwise nothing can run, and this is the operation to wait for
  };

  /// `s` must have passed `check` of schedule_check.hpp. The limit is what the order itself needs at most.
  CAUSEWAY_DECL schedule_cursor(const schedule& s, std::uint32_t rank, run_order mode = run_order::strict);

  /// With another limit: at least what the order itself needs; more lets an opportunistic rank run further ahead.
  CAUSEWAY_DECL schedule_cursor(const schedule& s, std::uint32_t rank, run_order mode, const held_memory& limit);

  [[nodiscard]] bool finished() const noexcept { return first_ == order_.size(); }
  [[nodiscard]] const std::vector<operation>& order() const noexcept { return order_; }

  /// The operation to run now, or to wait for. `ready(operation)`: whether its input from another rank (source_of) has
  /// arrived; true for what needs none. Not to be called once finished. Cost: one call of `ready` if the next in order is
  /// ready or the order strict, otherwise at most linear in what remains.
  template <std::predicate<const operation&> Ready>
  [[nodiscard]] choice next(Ready&& ready) {
    CAUSEWAY_EXPECT(!finished());
    if (ready(order_[first_])) return {first_, true};
    if (mode_ == run_order::strict) return {first_, false};
    ++scan_;
    held_memory then = held_, peak = held_;  // if what is overtaken ran in order
    for (std::size_t i = first_; i < order_.size(); ++i) {
      if (done_[i]) continue;
      if (i != first_ && may_overtake(i, peak) && ready(order_[i])) return {i, true};
      skip(order_[i]);
      then += changes_[i];
      peak = larger(peak, then);
    }
    return {first_, false};
  }

  /// The operation of a choice has run.
  CAUSEWAY_DECL void complete(std::size_t index);

  /// What the rank holds now.
  [[nodiscard]] const held_memory& held() const noexcept { return held_; }

  /// From the first operation again: the next step.
  CAUSEWAY_DECL void rewind();

 private:
  // Of a chunk: what must keep its order among itself. A backward is of two of these.
  enum line : std::size_t { forwards, recomputes, input_gradients, weight_gradients, lines };

  static constexpr bool is_on(work kind, std::size_t line) noexcept {
    switch (line) {
      case forwards: return kind == work::forward;
      case recomputes: return kind == work::recompute;
      case input_gradients: return gives_input_gradient(kind);
      default: return gives_weight_gradient(kind);
    }
  }

  CAUSEWAY_DECL [[nodiscard]] std::size_t unit(const operation& op) const noexcept;

  CAUSEWAY_DECL [[nodiscard]] bool may_overtake(std::size_t index, held_memory peak) const;

  CAUSEWAY_DECL void skip(const operation& op);

  std::vector<operation> order_;
  std::vector<held_memory> changes_;
  std::vector<bool> done_;
  // the scan that last passed over an operation of a micro-batch and chunk, and of a line and chunk
  std::vector<std::uint64_t> skipped_units_;
  std::vector<std::array<std::uint64_t, lines>> skipped_kinds_;
  std::uint64_t scan_ = 0;
  std::uint32_t micro_batches_;
  run_order mode_;
  held_memory limit_;
  held_memory held_;
  std::size_t first_ = 0;  // not done
};

}}}  // namespace causeway::CAUSEWAY_ABI::plan

#ifndef CAUSEWAY_COMPILED
#include <causeway/plan/impl/schedule_cursor.ipp>
#endif

#endif  // CAUSEWAY_PLAN_SCHEDULE_CURSOR_HPP
