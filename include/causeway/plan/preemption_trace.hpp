// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PLAN_PREEMPTION_TRACE_HPP
#define CAUSEWAY_PLAN_PREEMPTION_TRACE_HPP

// When the instances of a cluster come and go, and made-up traces of that. Text is in preemption_trace_text.hpp.
//
// Made-up traces follow what is published of spot instances: they are taken back several at a time, from one zone (Thorpe
// et al., Bamboo, NSDI 2023, section 3), and replaced some minutes later. The distributions are ours: events are Poisson
// with a rate in proportion to what is live, sizes geometric, delays of replacements exponential.

#include <causeway/config/config.hpp>
#include <causeway/core/error.hpp>
#include <causeway/core/rng.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <queue>
#include <string>
#include <utility>
#include <vector>

namespace causeway::inline CAUSEWAY_ABI::plan {

struct instance_event {
  double seconds = 0;  ///< from the start of the trace
  bool arrives = true;
  std::uint32_t instance = 0;  ///< its place in `instances`

  friend bool operator==(const instance_event&, const instance_event&) = default;
};

struct trace_instance {
  std::string name;
  std::uint32_t zone = 0;  ///< its place in `zones`

  friend bool operator==(const trace_instance&, const trace_instance&) = default;
};

/// Events in the order of time; of equal times, in the order in which they happen. An instance arrives before it leaves,
/// and may come again.
struct preemption_trace {
  std::vector<instance_event> events;
  std::vector<trace_instance> instances;
  std::vector<std::string> zones;
  double seconds = 0;  ///< length: not before the last event

  friend bool operator==(const preemption_trace&, const preemption_trace&) = default;
};

/// What a trace is like.
struct trace_summary {
  double mean_instances = 0;  ///< over time
  std::size_t fewest = 0;     ///< after the events of the first moment
  std::size_t most = 0;
  std::size_t losses = 0;
  std::size_t bulks = 0;         ///< moments at which at least one instance leaves
  double hourly_loss_share = 0;  ///< losses for each instance and hour
};

inline trace_summary summary_of(const preemption_trace& trace) {
  trace_summary s{0, std::numeric_limits<std::size_t>::max(), 0, 0, 0, 0};
  std::size_t live = 0;
  double sum = 0, last_loss = -1;
  for (std::size_t i = 0; i < trace.events.size(); ++i) {
    const instance_event& e = trace.events[i];
    if (!e.arrives) {
      ++s.losses;
      if (e.seconds != last_loss) ++s.bulks;
      last_loss = e.seconds;
    }
    live += e.arrives ? 1 : std::numeric_limits<std::size_t>::max();  // minus one
    s.most = std::max(s.most, live);
    const double until = i + 1 < trace.events.size() ? trace.events[i + 1].seconds : trace.seconds;
    if (until > e.seconds || i + 1 == trace.events.size()) s.fewest = std::min(s.fewest, live);
    sum += (until - e.seconds) * static_cast<double>(live);
  }
  if (trace.events.empty()) s.fewest = 0;
  if (trace.seconds > 0) s.mean_instances = sum / trace.seconds;
  if (sum > 0) s.hourly_loss_share = static_cast<double>(s.losses) * 3600 / sum;
  return s;
}

/// What a made-up trace is to be like.
struct trace_options {
  std::uint32_t instances = 48;     ///< asked for; all are there at the start
  std::uint32_t zones = 3;          ///< instances are spread over them in turn
  double hours = 24;                ///< length
  double hourly_loss_share = 0.10;  ///< of the live instances, in an hour on average
  double bulk = 3;                  ///< instances lost at once, on average, if the zone has as many; >= 1
  double replacement = 600;         ///< seconds until a lost instance is replaced, on average
};

namespace detail {

/// Uniform in (0, 1).
inline double open_unit(rng& draw) { return (static_cast<double>(draw.next() >> 12U) + 0.5) * 0x1.0p-52; }

inline double exponential(rng& draw, double mean) { return -mean * std::log(open_unit(draw)); }

/// At least 1, with this mean.
inline std::uint32_t geometric(rng& draw, double mean) {
  std::uint32_t n = 1;
  while (n < 4096 && open_unit(draw) > 1 / mean) ++n;
  return n;
}

/// Whole milliseconds, as files have them.
inline double whole_ms(double seconds) { return std::ceil(seconds * 1000) / 1000; }

class trace_maker {
 public:
  trace_maker(const trace_options& o, std::uint64_t seed) : options_{o}, draw_{seed, mix(0x7472616365U)} {
    for (std::uint32_t z = 0; z < o.zones; ++z) trace_.zones.push_back("zone" + std::to_string(z));
  }

  preemption_trace make() {
    const double end = options_.hours * 3600;
    for (std::uint32_t i = 0; i < options_.instances; ++i) arrive(0, i % options_.zones);
    double now = 0;
    while (now < end) {
      const double rate = options_.hourly_loss_share * static_cast<double>(live_.size()) / (3600 * options_.bulk);
      const double loss = rate > 0 ? whole_ms(now + exponential(draw_, 1 / rate)) : std::numeric_limits<double>::infinity();
      const double come = coming_.empty() ? std::numeric_limits<double>::infinity() : coming_.top().first;
      now = std::min(loss, come);  // an arrival changes the rate: the next loss is drawn anew, which has no memory
      if (now >= end) break;
      if (come <= loss) {
        const std::uint32_t zone = coming_.top().second;
        coming_.pop();
        arrive(now, zone);
      } else {
        lose(now);
      }
    }
    trace_.seconds = end;
    return std::move(trace_);
  }

 private:
  void arrive(double now, std::uint32_t zone) {
    const auto id = static_cast<std::uint32_t>(trace_.instances.size());
    trace_.instances.push_back({"node" + std::to_string(id + 1), zone});
    trace_.events.push_back({now, true, id});
    live_.push_back(id);
  }

  /// Some instances of the zone of one that is drawn: large zones are hit more often.
  void lose(double now) {
    const std::uint32_t zone = trace_.instances[live_[draw_.below(live_.size())]].zone;
    std::vector<std::uint32_t> there;
    for (const std::uint32_t id : live_) {
      if (trace_.instances[id].zone == zone) there.push_back(id);
    }
    for (std::uint32_t n = geometric(draw_, options_.bulk); n > 0 && !there.empty(); --n) {
      const auto at = static_cast<std::ptrdiff_t>(draw_.below(there.size()));
      const std::uint32_t id = there[static_cast<std::size_t>(at)];
      there.erase(there.begin() + at);
      live_.erase(std::find(live_.begin(), live_.end(), id));
      trace_.events.push_back({now, false, id});
      coming_.emplace(whole_ms(now + exponential(draw_, options_.replacement)), zone);
    }
  }

  const trace_options& options_;
  rng draw_;
  preemption_trace trace_;
  std::vector<std::uint32_t> live_;
  using arrival = std::pair<double, std::uint32_t>;  // when, zone
  std::priority_queue<arrival, std::vector<arrival>, std::greater<>> coming_;
};

}  // namespace detail

/// A made-up trace; the same for the same options and seed. Times are whole milliseconds.
inline preemption_trace make_trace(const trace_options& options, std::uint64_t seed) {
  CAUSEWAY_EXPECT(options.zones > 0 && options.hours > 0 && options.hourly_loss_share >= 0 && options.bulk >= 1 &&
                  options.replacement > 0);
  return detail::trace_maker{options, seed}.make();
}

}  // namespace causeway::inline CAUSEWAY_ABI::plan

#endif  // CAUSEWAY_PLAN_PREEMPTION_TRACE_HPP
