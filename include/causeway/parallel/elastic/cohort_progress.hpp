// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PARALLEL_ELASTIC_COHORT_PROGRESS_HPP
#define CAUSEWAY_PARALLEL_ELASTIC_COHORT_PROGRESS_HPP

// How far a peer has come with its cohort since the last exchange, in a pipeline whose replicas take steps of their own:
// what it says of that to the others, what it keeps when an attempt is called off, and what it gives up.

#include <causeway/config/config.hpp>
#include <causeway/core/clock.hpp>
#include <causeway/core/error.hpp>
#include <causeway/core/result.hpp>
#include <causeway/net/deadline.hpp>
#include <causeway/nn/model_part.hpp>
#include <causeway/parallel/elastic/pipeline_peer.hpp>
#include <causeway/parallel/elastic/step_group.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <span>
#include <utility>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace parallel {

/// Of one peer. A regular value.
class cohort_progress {
 public:
  [[nodiscard]] const cohort_member& now() const noexcept { return now_; }
  [[nodiscard]] const nn::block_range& computes() const noexcept { return computes_; }
  [[nodiscard]] std::uint64_t given_up_steps() const noexcept { return given_up_steps_; }

  /// What it says of itself before step `step`.
  CAUSEWAY_DECL [[nodiscard]] cohort_member described(std::uint64_t step, const step_record& record) const;

  // ---- a step -------------------------------------------------------------------------------------------------------

  void begin_gradient() noexcept { now_.complete_in = 0; }
  /// The peer's part of the replica's gradient is complete. `row`: name_of_row of the replica.
  void end_gradient(std::uint64_t row) noexcept { now_.complete_in = row; }
  /// So is all of it: then the replica moves, whoever is lost.
  void note_sums(double loss, double norm, bool exchanges) noexcept {
    now_.loss = loss;
    now_.norm = norm;
    note_exchange(exchanges);
  }
  /// Whether one comes after the step under way.
  void note_exchange(bool comes) noexcept { now_.exchanges = comes ? 1 : 0; }
  /// Whether others said what the step under way came to, once.
  [[nodiscard]] bool was_told() noexcept { return std::exchange(told_, false); }
  void took_step() noexcept {
    ++now_.steps;
    now_.evaluated = 0;
    now_.taken_in = std::exchange(now_.complete_in, 0);
  }
  /// Of a policy whose rounds are `round_samples` of all replicas together (0: they are others): whether one ends with a
  /// step on a global batch of `samples`. It does as soon as one replica has made as many steps as that is batches, and
  /// after the step under way where peers came or went in the middle of it. Not by the clock: see `trained`.
  [[nodiscard]] bool ends_round(const exchange_state& policy, std::uint64_t samples) const noexcept {
    if (policy.round_samples == 0 || policy.round_seconds) return false;
    return in_round_ || (now_.steps + 1) * samples >= policy.round_samples;
  }
  /// How long the steps of this round took, with the one under way, in seconds.
  [[nodiscard]] double trained(time_point now) const { return trained_ + seconds(now - began_); }
  /// Makes a step on so many samples, and gives it its time: `deadline` is the attempt's. Only one that is made in one go,
  /// and here, says how quick the replica is.
  template <class Make>
  result<double> timed(auto& clock, time_point& deadline, std::uint64_t samples, const Make& make) {
    const bool whole = !std::exchange(under_way_, true) && !told_;
    began_ = clock.now();
    deadline = due(began_, deadline);
    const result<double> loss = make();
    const duration took = clock.now() - began_;
    trained_ += seconds(took);
    if (!loss && loss.error().code == errc::timeout) step_times_.overdue(took);
    if (!loss) return loss;
    under_way_ = false;
    if (whole) samples_ += static_cast<double>(samples), seconds_ += seconds(took), step_times_.observe(took);
    return loss;
  }
  /// By when what the others do of a step, or of an evaluation, that begins now is overdue: not before it has taken twice
  /// as long as steps did. An attempt's own deadline is for an exchange.
  [[nodiscard]] time_point due(time_point now, time_point deadline) const noexcept {
    return std::max(deadline, now + (step_times_.count() > 0 ? 2 * step_times_.patience() : std::chrono::minutes{10}));
  }
  void rests() noexcept {
    now_.evaluated = 0;
    rested_ = true;
  }
  /// Names the evaluation that comes next among those before all steps of a round.
  [[nodiscard]] std::uint64_t evaluation() const noexcept {
    return now_.steps * most_evaluations + now_.evaluated % most_evaluations;
  }
  void note_evaluation(double sum) noexcept {
    now_.evaluation = sum;
    ++now_.evaluated;
  }

  // ---- between attempts ---------------------------------------------------------------------------------------------

  /// Another one begins, of those who say this.
  CAUSEWAY_DECL void met(std::span<const cohort_member> members) noexcept;
  /// Whether the round began with the attempt under way, once.
  [[nodiscard]] bool began_round() noexcept { return std::exchange(begins_round_, false); }

  /// What this peer has moved, or computed with, is worth nothing.
  void spoil() noexcept {
    spoilt_ = true;
    now_.cohort = 0;
  }
  /// The run went back to a saved state; the peer has what the policy keeps alike `of` it, or nothing (0).
  void go_back(std::uint64_t of) noexcept {
    spoilt_ = true;
    now_ = {.state = of};
  }
  /// From a checkpoint, without what was in flight then: only with those who were started again from the same step.
  CAUSEWAY_DECL void start_again() noexcept;
  /// For good, whatever comes of this attempt.
  void leave_cohort() noexcept { now_.cohort = 0; }

  /// This peer's replica goes on, with these stages here: more than before, where it keeps a lost peer's.
  CAUSEWAY_DECL void go_on_with(pipeline_peer& peer);
  /// This peer's replica goes on. One that has its gradient and missed the others' word that they had theirs is told now.
  /// `members`: of those that are in it.
  CAUSEWAY_DECL result<void> catch_up(std::span<const cohort_member> members);
  /// A new replica, or none, as `peer` is assigned. Whether the round begins anew for that: not for a peer that has given
  /// up nothing, which begins with what its last exchange left it: that may be more than the shared parameters.
  CAUSEWAY_DECL bool join_cohort(pipeline_peer& peer, std::uint64_t step);

  /// The run has the round, and so has this peer.
  void exchanged(std::uint64_t state) noexcept {
    now_ = {.state = state};
    rested_ = false;
    trained_ = 0;
    if (seconds_ > 0) speed_ = std::exchange(samples_, 0.0) / std::exchange(seconds_, 0.0);
  }

  void serialize(auto& ar) {
    ar(now_.state, now_.cohort, now_.steps, now_.norm, now_.loss, now_.slots, now_.slot, now_.exchanges, computes_.first,
       computes_.last);
    ar(now_.first, now_.share, speed_, samples_, seconds_, trained_);
  }

 private:
  static constexpr std::uint64_t most_evaluations = 16;  // before one step, whose messages have names of their own

  cohort_member now_;
  nn::block_range computes_{};
  bool told_ = false;  // by those who took that step, what they came to
  bool spoilt_ = false;
  bool in_round_ = false;  // somebody had made steps of it when the attempt began
  bool begins_round_ = false;
  bool rested_ = false;               // in the step under way: whoever is assigned then has to make it
  bool under_way_ = false;            // a step, also one that is to be tried again
  double samples_ = 0, seconds_ = 0;  // of steps since the last exchange, and how long they took
  double speed_ = 0;                  // from there to the one before
  double trained_ = 0;                // seconds, in steps of this round, whatever became of them
  time_point began_{};                // the step under way
  std::uint64_t given_up_steps_ = 0;
  net::arrival_statistics step_times_{{.floor = std::chrono::seconds{10}, .cap = std::chrono::hours{24}}};
};

}}}  // namespace causeway::CAUSEWAY_ABI::parallel

#ifndef CAUSEWAY_COMPILED
#include <causeway/parallel/elastic/impl/cohort_progress.ipp>
#endif

#endif  // CAUSEWAY_PARALLEL_ELASTIC_COHORT_PROGRESS_HPP
