// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PLAN_PREEMPTION_REPLAY_HPP
#define CAUSEWAY_PLAN_PREEMPTION_REPLAY_HPP

// How much is trained while peers come and go as a trace says, if a policy against lost stages decides what happens. Event
// by event: peers that leave, peers that are ready some time after they came, ends of pauses, of steps, and of checkpoints.
// Every sample that is computed ends up committed, thrown away, or under way at the end; a step commits its global batch
// once, and a checkpoint that is gone back to takes back what came after it.

#include <causeway/config/config.hpp>
#include <causeway/plan/preemption_trace.hpp>
#include <causeway/plan/recovery.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <set>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan {

struct replay_options {
  double preparation = 0;                ///< seconds from an instance's arrival until it can train; not at the start
  double dollars_per_instance_hour = 0;  ///< from arrival on
};

/// What a replay came to. Samples are parts of whole ones where a step was broken off.
struct replay_result {
  double seconds = 0;
  double committed = 0;    ///< samples in the final weights
  double thrown_away = 0;  ///< samples computed, and computed again
  double under_way = 0;    ///< samples of the step that the trace's end broke off
  double computed = 0;     ///< samples: the sum of these three
  double paused = 0;       ///< seconds
  double stalled = 0;      ///< seconds with too few peers for a step
  std::size_t pauses = 0;
  std::size_t steps = 0;        ///< committed
  double instance_seconds = 0;  ///< of instances that are there
  double dollars = 0;           ///< for them
  double possible_samples = 0;  ///< if all of them had computed all the time without a bubble

  [[nodiscard]] double throughput() const { return seconds > 0 ? committed / seconds : 0; }  ///< samples per second
  /// The part of what the live instances could have computed that became committed samples.
  [[nodiscard]] double share() const { return possible_samples > 0 ? committed / possible_samples : 0; }
  [[nodiscard]] double dollars_per_sample() const { return committed > 0 ? dollars / committed : 0; }
};

namespace detail {

template <recovery_policy Policy>
class replayer {
 public:
  replayer(const preemption_trace& trace, const recovery_job& job, const replay_options& options, Policy& policy)
      : trace_{trace}, job_{job}, options_{options}, policy_{policy}, ready_at_(trace.instances.size(), never) {}

  replay_result run() {
    out_.seconds = trace_.seconds;
    for (;;) {
      change_members();
      const double next = std::min({trace_.seconds, next_member(), ends_pause(), ends_step()});
      const bool step = next == ends_step();
      advance(next);
      if (step) finish_step();
      if (now_ >= trace_.seconds) break;
    }
    out_.under_way = part_ * job_.samples();
    out_.steps = static_cast<std::size_t>(done_);
    out_.committed = done_ * job_.samples();
    out_.possible_samples = out_.instance_seconds / job_.sample_seconds();
    out_.dollars = out_.instance_seconds / 3600 * options_.dollars_per_instance_hour;
    return out_;
  }

 private:
  static constexpr double never = std::numeric_limits<double>::infinity();

  [[nodiscard]] bool paused() const { return now_ < resume_; }
  [[nodiscard]] double ends_pause() const { return paused() ? resume_ : never; }
  [[nodiscard]] double ends_step() const {
    return paused() || step_ == never ? never : std::max(now_, now_ + (1 - part_) * step_);
  }
  [[nodiscard]] double next_member() const {
    const double event = event_ < trace_.events.size() ? trace_.events[event_].seconds : never;
    return std::min(event, coming_.empty() ? never : coming_.begin()->first);
  }

  void advance(double to) {
    const double dt = to - now_;
    out_.instance_seconds += dt * static_cast<double>(live_);
    if (paused()) {
      out_.paused += dt;
    } else if (step_ == never) {
      out_.stalled += dt;
    } else {
      const double part = to == ends_step() ? 1 - part_ : std::min(dt / step_, 1 - part_);
      part_ += part;
      out_.computed += part * job_.samples();
    }
    now_ = to;
  }

  /// All that leave, come and become ready now.
  void change_members() {
    std::vector<std::uint32_t> lost, come;
    for (; event_ < trace_.events.size() && trace_.events[event_].seconds <= now_; ++event_) {
      const instance_event& e = trace_.events[event_];
      double& ready = ready_at_[e.instance];
      if (e.arrives) {
        ++live_;
        ready = now_ > 0 ? now_ + options_.preparation : 0;
        coming_.insert({ready, e.instance});
      } else {
        --live_;
        if (coming_.erase({ready, e.instance}) == 0) lost.push_back(e.instance);
      }
    }
    for (; !coming_.empty() && coming_.begin()->first <= now_; coming_.erase(coming_.begin()))
      come.push_back(coming_.begin()->second);
    if (lost.empty() && come.empty()) return;
    std::sort(lost.begin(), lost.end());
    std::sort(come.begin(), come.end());
    apply(policy_.changed(lost, come));
  }

  void finish_step() {
    part_ = 0;
    if (repeats_ > 0) {  // what training lost is made good first
      const double again = std::min(repeats_, 1.0);
      repeats_ -= again;
      out_.thrown_away += again * job_.samples();
      done_ += 1 - again;
    } else {
      done_ += 1;
    }
    save();
    apply(policy_.boundary());
  }

  /// Begins a checkpoint if none is being written and it is time.
  void save() {
    written();
    if (policy_.checkpoint_bytes() == 0 || writing_ends_ != never) return;
    if (done_ - saved_ < static_cast<double>(job_.checkpoint_steps)) return;
    writing_ = done_;
    writing_ends_ = now_ + job_.checkpoint_stall + policy_.checkpoint_bytes() / job_.write_bytes_per_second;
    pause_for(job_.checkpoint_stall);
  }

  void written() {
    if (writing_ends_ > now_) return;
    saved_ = writing_;
    writing_ends_ = never;
  }

  void pause_for(double seconds) {
    if (seconds > 0 && !paused()) ++out_.pauses;
    resume_ = std::max(resume_, now_ + seconds);
  }

  void apply(const recovery_action& action) {
    written();
    if (action.fate != step_fate::goes_on) {
      out_.thrown_away += part_ * job_.samples();
      part_ = 0;
    }
    if (action.fate == step_fate::from_checkpoint) {
      out_.thrown_away += (done_ - saved_) * job_.samples();
      done_ = saved_;
      writing_ends_ = never;
      repeats_ = 0;  // the checkpoint's weights are whole; the steps that were owed are gone with the others
    }
    repeats_ += action.repeated_steps;
    step_ = policy_.step_seconds();
    if (now_ > 0) pause_for(action.pause);  // who is there at the start has started before the trace does
  }

  const preemption_trace& trace_;
  const recovery_job& job_;
  const replay_options& options_;
  Policy& policy_;
  replay_result out_;
  std::vector<double> ready_at_;                       // [instance]
  std::set<std::pair<double, std::uint32_t>> coming_;  // when ready, instance
  std::size_t event_ = 0, live_ = 0;
  double now_ = 0, resume_ = 0, step_ = never;
  double part_ = 0;                // of the step under way
  double done_ = 0, repeats_ = 0;  // steps
  double saved_ = 0, writing_ = 0, writing_ends_ = never;
};

}  // namespace detail

/// Runs a policy against a trace. The policy starts without peers; those of the trace's first moment are ready at once.
/// Deterministic.
template <recovery_policy Policy>
replay_result replay(const preemption_trace& trace, const recovery_job& job, const replay_options& options, Policy policy) {
  CAUSEWAY_EXPECT(trace.seconds >= 0 && options.preparation >= 0 && job.sample_seconds() > 0);
  return detail::replayer<Policy>{trace, job, options, policy}.run();
}

}}}  // namespace causeway::CAUSEWAY_ABI::plan

#endif  // CAUSEWAY_PLAN_PREEMPTION_REPLAY_HPP
