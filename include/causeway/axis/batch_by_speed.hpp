// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_AXIS_BATCH_BY_SPEED_HPP
#define CAUSEWAY_AXIS_BATCH_BY_SPEED_HPP

// A trigger that gives slow peers smaller batches, so that all take their inner steps in about the same time (DLion, Hong
// and Chandra 2021, section 3.2): every peer's batch is a share of a fixed number of sequences, in proportion to how many
// sequences a second it computes. All peers take the same number of steps, and what they send counts by their batch.

#include <causeway/axis/every.hpp>
#include <causeway/axis/speeds.hpp>
#include <causeway/collective/shares.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace axis {

struct batch_by_speed_options {
  std::uint32_t local_steps = 1;  ///< H, the same for all
  std::uint32_t sequences = 64;   ///< of a step, of all peers together: at least `multiple` for each
  std::uint32_t multiple = 1;     ///< every batch is one of it, as the micro-batches of a pipeline want it
};

/// A peer of speed v (sequences a second of computing, without what it waited) gets `multiple`, and its part of what is
/// left when all have that: whole_parts in proportion to v. Before the first exchange all parts are alike. After every
/// exchange all peers tell each other their speeds (8 bytes each), which of stages are those of their pipelines. Who feeds
/// the trainer asks `sequences()` before each step, and where this peer's begin: `batcher.at(first +
/// trigger.sequences_before(), trigger.sequences())`. What is measured is time: a run repeats to the bit only on a clock
/// that does. Groups, merge rules that mix this peer's fresh row in, and exchanges without weights are errors (A15).
///
/// Where peers come and go the speeds are the last part of each exchange, and batches are divided among those who took part
/// in it: until the next one, a peer that was lost takes its part of a step along, and one that was not there has the batch
/// that it had. A newcomer counts as the mean of the others. Who begins has the part of one of the peers that the run
/// expects. Of more peers than there are multiples each gets one. Which sequences, says `trainer.draw(sequences())`.
class batch_by_speed {
 public:
  static constexpr part decides = part::trigger;
  static constexpr bool watches_movement = false;
  static constexpr bool follows_speed = true;
  static constexpr bool weighs = true;
  static constexpr bool tells = true;

  explicit batch_by_speed(batch_by_speed_options options = {}) : options_{options} {}

  [[nodiscard]] const batch_by_speed_options& options() const noexcept { return options_; }

  /// Of this peer's batch in the next step; of stages that come and go, the whole one. Known once the policy was started.
  [[nodiscard]] std::uint32_t sequences() const noexcept { return sequences_; }
  /// Of the peers before it in the same step: where its part of a batch that all share begins.
  [[nodiscard]] std::uint32_t sequences_before() const noexcept { return before_; }
  [[nodiscard]] index_range part_of_batch() const noexcept { return {before_, std::int64_t{before_} + sequences_}; }

  CAUSEWAY_DECL [[nodiscard]] result<void> check(std::size_t) const;
  [[nodiscard]] std::uint32_t first(std::size_t, std::size_t) const noexcept { return options_.local_steps; }
  [[nodiscard]] std::uint32_t next(std::size_t, std::size_t) const noexcept { return options_.local_steps; }

  result<void> open(auto& ctx) {
    const bool whole = ctx.exchanges_at_once();  // stages that come and go are given the whole batch
    const auto peers = whole ? std::size_t{1} : static_cast<std::size_t>(std::lround(1 / ctx.own_share()));
    if (options_.sequences / options_.multiple < peers) {
      return fail(errc::invalid_argument, "batch_by_speed",
                  std::to_string(options_.sequences) + " sequences a step for " + std::to_string(peers) +
                      " peers; every peer needs " + std::to_string(options_.multiple));
    }
    if (sequences_ == 0) take(std::min<std::size_t>(ctx.self(), peers - 1), std::vector<double>(peers, 1.0));
    return {};
  }

  /// Of each of the peers of these speeds; those that are unknown (0, negative, not finite) count as the mean of the
  /// others. They add up to `sequences`, or, of more peers than it has multiples, are one multiple each.
  CAUSEWAY_DECL [[nodiscard]] std::vector<std::size_t> sequences_for(std::vector<double> speeds) const;
  /// The same in multiples: for pipelines that come and go, of as many micro-batches as a step has multiples.
  CAUSEWAY_DECL [[nodiscard]] std::vector<std::size_t> parts_for(std::vector<double> speeds) const;

  result<void> exchanged(auto&, const exchange_report&) { return {}; }
  /// Tells all peers this one's speed: the last one that it knows, if it has made no step since.
  result<void> tell(auto& ctx, const exchange_report& report) {
    if (report.samples > 0) trained_ = static_cast<double>(report.samples), seconds_ = report.compute_seconds;
    std::vector<double> speeds;
    CAUSEWAY_TRY(detail::speeds_of_all(ctx, trained_, seconds_, heard_, speeds));
    ++heard_;
    take(ctx.self(), std::move(speeds));
    return {};
  }

  void serialize(auto& ar) { ar(sequences_, before_, heard_); }
  void shared(auto&) {}  ///< each peer's batch is its own

 private:
  static bool is_known(double speed) { return std::isfinite(speed) && speed > 0; }
  CAUSEWAY_DECL void take(std::size_t self, std::vector<double> speeds);

  batch_by_speed_options options_;
  std::uint32_t sequences_ = 0;
  std::uint32_t before_ = 0;
  std::uint64_t heard_ = 0;           ///< exchanges of speeds so far
  double trained_ = 0, seconds_ = 0;  ///< sequences, and how long they took; not in a checkpoint
};
static_assert(Trigger<batch_by_speed>);

}}}  // namespace causeway::CAUSEWAY_ABI::axis

#ifndef CAUSEWAY_COMPILED
#include <causeway/axis/impl/batch_by_speed.ipp>
#endif

#endif  // CAUSEWAY_AXIS_BATCH_BY_SPEED_HPP
