// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_AXIS_EVERY_SECONDS_HPP
#define CAUSEWAY_AXIS_EVERY_SECONDS_HPP

// A trigger by the clock (A-EDiT, Cheng et al. 2024, arXiv 2412.07210): peers exchange when they have trained for some
// time, whatever number of steps that was, so that quick peers do not wait for slow ones. As its authors' code has it
// (dlrover, atorch/local_sgd, _sync_if_needed).

#include <causeway/axis/every.hpp>
#include <causeway/collective/channels.hpp>
#include <causeway/collective/gather.hpp>
#include <causeway/core/clock.hpp>
#include <causeway/core/result.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace axis {

struct every_seconds_options {
  double seconds = 600;              ///< T, of each peer's own clock
  std::uint64_t fewest_steps = 100;  ///< of all peers together since their last exchange: with fewer there is none
};

/// A peer that has trained for T seconds since the peers met last goes to meet them again after its step, and waits there:
/// no longer than the longest step of another peer takes, as all began to count together. Neither waiting there nor an
/// exchange is of these T, so that on slow lines as many steps lie between two exchanges as on quick ones (its authors'
/// code counts from the moment before an exchange). Clocks are never compared. Those who meet add up the steps that they
/// made since their last exchange, so all decide alike: all fragments are exchanged, or they were fewer than
/// `fewest_steps`, and only the time counts anew. Rows count by the samples behind them.
///
/// A peer that has ended its training goes to each meeting at once, until all have ended; it counts for nothing once it has
/// no steps that were not exchanged. The last meeting, of peers that have all ended, exchanges what is left, however few
/// steps that were. Cost: 16 bytes to each other peer in a meeting, and one latency. Groups are those of the exchange; all
/// peers meet. Of a model in stages all go by the clock of the first one, who tells the others after each step: 16 bytes
/// to each, and one latency. A run repeats to the bit only on a clock that does. Gradients, exchanges without weights, and
/// results that are taken some steps later are errors (A15, A17). With `one_round_late` the mean of one meeting is taken at
/// the next.
///
/// Where peers come and go they tell the leader of the membership after each step how many they have made, from the half of
/// T seconds on: 100 bytes. Once all together have made `fewest_steps`, each goes to meet the others when T seconds have
/// passed for it; until then they train on, and time does not count anew. Each such meeting is an exchange, and nobody
/// waits there for a peer that is lost. Give members samples for all steps between two meetings
/// (`member_options::protocol.quota`): who has used up its own waits there. With `one_round_late` a row goes out when half
/// of T has passed, and peers wait for each other there as well; give them samples for two such times.
///
/// Of pipelines whose peers come and go each goes by the clock of its first stage, which is of steps alone, and those of
/// the others hear how many they have made, while they are too few: 8 bytes after each step. As soon as it is time for one
/// of them, all others come after the step that they are in. Results that are a round late are not built there (C7).
class every_seconds {
 public:
  static constexpr part decides = part::trigger;
  static constexpr bool watches_movement = false;
  static constexpr bool follows_speed = true;
  static constexpr bool weighs = true;
  static constexpr bool meets = true;
  static constexpr bool tells = true;

  explicit every_seconds(every_seconds_options options = {}) : options_{options} {}

  [[nodiscard]] const every_seconds_options& options() const noexcept { return options_; }

  CAUSEWAY_DECL [[nodiscard]] result<void> check(std::size_t) const;
  [[nodiscard]] static std::uint32_t first(std::size_t, std::size_t) noexcept { return 1; }
  [[nodiscard]] static std::uint32_t next(std::size_t, std::size_t) noexcept { return 1; }
  /// Time counts from here on.
  result<void> exchanged(auto& ctx, const exchange_report&) {
    met_at_ = ctx.clock().now();
    return {};
  }

  /// From here on time counts; in a run that goes on, from where it was after the last step.
  result<void> open(auto& ctx) {
    met_at_ = {ctx.clock().now().since_start - passed_};
    meetings_ = 0;
    return {};
  }

  /// Meets the others if it is time, or at once if this peer `ended` its training: it has made `steps` since its last
  /// exchange. Once a step: `step_is_over` comes before the next call.
  result<void> meet(auto& ctx, std::uint64_t steps, bool ended) {
    if (met_) return {};
    if (!ended) CAUSEWAY_TRY(look_at_clock(ctx));
    if (!ended && !has_passed(1)) return {};
    std::vector<std::uint64_t> all{steps, std::uint64_t{ended}};  // of each peer both
    if (ctx.peers() > 1) {
      const std::vector<std::uint64_t> own = all;
      all.resize(2 * std::size_t{ctx.peers()});
      CAUSEWAY_TRY(collective::all_gather(ctx.transport(), {.channel = collective::channels::metrics, .step = meetings_},
                                          std::as_bytes(std::span{own}), std::as_writable_bytes(std::span{all}),
                                          ctx.exchange_options()));
    }
    decide(all);
    met_at_ = ctx.clock().now();
    return {};
  }
  void step_is_over() noexcept { met_ = looked_ = false; }
  /// Whether this share of T had passed after this peer's last step.
  [[nodiscard]] bool has_passed(double share) const noexcept { return seconds(passed_) >= share * options_.seconds; }

  // ---- where peers come and go, but for pipelines ----------------------------------------------------------------------

  /// Time counts from now on: after an exchange, whoever made it.
  void begin_anew(auto& ctx) {
    met_at_ = ctx.clock().now();
    passed_ = duration{0};
    met_ = false;
  }
  /// Whether this peer goes to meet the others after the step under way; it has made `steps` since its last exchange.
  bool is_time(auto& ctx, std::uint64_t steps) {
    passed_ = ctx.clock().now() - met_at_;
    is_near_ = false;
    if (!has_passed(0.5)) return false;
    ctx.contribution().gathered(steps);
    is_near_ = met_ || ctx.announce_samples();
    return met_ = met_ || (is_near_ && has_passed(1));
  }
  /// When that was asked last: whether half of the time had passed, and all together had made enough steps.
  [[nodiscard]] bool is_near() const noexcept { return is_near_; }
  /// Tells all peers how many steps this one has made: 8 bytes to each.
  result<void> tell(auto& ctx, const exchange_report& report) {
    std::vector<std::uint64_t> all(ctx.peers(), report.steps);
    if (ctx.peers() > 1) {
      const std::uint64_t own = report.steps;
      CAUSEWAY_TRY(collective::all_gather(ctx.transport(), ctx.exchange_id(collective::channels::metrics),
                                          std::as_bytes(std::span{&own, 1}), std::as_writable_bytes(std::span{all}),
                                          ctx.exchange_options()));
    }
    mean_steps_ = mean_of(all);
    return {};
  }
  /// Steps between the last exchange and the one before it: the mean of those who made any.
  [[nodiscard]] std::uint64_t mean_steps() const noexcept { return mean_steps_; }

  /// That meetings decided on, since the run began.
  [[nodiscard]] std::uint64_t exchanges() const noexcept { return exchanges_; }
  /// Whether all peers have ended their training.
  [[nodiscard]] bool all_ended() const noexcept { return all_ended_; }

  void serialize(auto& ar) {
    std::int64_t passed = passed_.count();
    ar(passed, exchanges_, met_);
    passed_ = duration{passed};
  }
  void shared(auto&) {}  ///< each peer's time is its own

 private:
  /// The first stage's, for all stages of a model: they go to meet after the same step. Once a step.
  result<void> look_at_clock(auto& ctx) {
    if (looked_) return {};
    const auto own = static_cast<double>((ctx.clock().now() - met_at_).count());
    CAUSEWAY_ASSIGN(const double passed, ctx.stages().of_first(own, ctx.exchange_options()));
    passed_ = duration{static_cast<std::int64_t>(passed)};
    looked_ = true;
    return {};
  }
  /// `all`: of each peer its steps, and whether it has ended.
  CAUSEWAY_DECL void decide(const std::vector<std::uint64_t>& all);
  CAUSEWAY_DECL static std::uint64_t mean_of(const std::vector<std::uint64_t>& steps);

  every_seconds_options options_;
  time_point met_at_{};
  duration passed_{0};          ///< from there to this peer's last step; of stages to the first one's
  std::uint64_t meetings_ = 0;  ///< since this peer began, or goes on
  std::uint64_t exchanges_ = 0;
  bool met_ = false;     ///< in this step
  bool looked_ = false;  ///< at the clock, in this step
  bool is_near_ = false;
  bool all_ended_ = false;
  std::uint64_t mean_steps_ = 1;
};
static_assert(Trigger<every_seconds>);

}}}  // namespace causeway::CAUSEWAY_ABI::axis

#ifndef CAUSEWAY_COMPILED
#include <causeway/axis/impl/every_seconds.ipp>
#endif

#endif  // CAUSEWAY_AXIS_EVERY_SECONDS_HPP
