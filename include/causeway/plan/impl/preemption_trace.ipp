// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PLAN_IMPL_PREEMPTION_TRACE_IPP
#define CAUSEWAY_PLAN_IMPL_PREEMPTION_TRACE_IPP

#include <causeway/plan/preemption_trace.hpp>

#include <algorithm>
#include <limits>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan { namespace detail {

/// Uniform in (0, 1).
inline double open_unit(rng& draw) { return (static_cast<double>(draw.next() >> 12U) + 0.5) * 0x1.0p-52; }

inline double exponential(rng& draw, double mean) { return -mean * std::log(open_unit(draw)); }

/// Whole milliseconds, as files have them.
inline double whole_ms(double seconds) { return std::ceil(seconds * 1000) / 1000; }

/// At least 1, with this mean.
CAUSEWAY_DECL std::uint32_t geometric(rng& draw, double mean) {
  std::uint32_t n = 1;
  while (n < 4096 && open_unit(draw) > 1 / mean) ++n;
  return n;
}

class trace_maker {
 public:
  CAUSEWAY_DECL trace_maker(const trace_options& o, std::uint64_t seed) : options_{o}, draw_{seed, mix(0x7472616365U)} {
    for (std::uint32_t z = 0; z < o.zones; ++z) trace_.zones.push_back("zone" + std::to_string(z));
  }

  CAUSEWAY_DECL preemption_trace make() {
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
  CAUSEWAY_DECL void arrive(double now, std::uint32_t zone) {
    const auto id = static_cast<std::uint32_t>(trace_.instances.size());
    trace_.instances.push_back({"node" + std::to_string(id + 1), zone});
    trace_.events.push_back({now, true, id});
    live_.push_back(id);
  }

  /// Some instances of the zone of one that is drawn: large zones are hit more often.
  CAUSEWAY_DECL void lose(double now) {
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

}}}}  // namespace causeway::CAUSEWAY_ABI::plan::detail

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan {

CAUSEWAY_DECL trace_summary summary_of(const preemption_trace& trace) {
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

CAUSEWAY_DECL preemption_trace make_trace(const trace_options& options, std::uint64_t seed) {
  CAUSEWAY_EXPECT(options.zones > 0 && options.hours > 0 && options.hourly_loss_share >= 0 && options.bulk >= 1 &&
                  options.replacement > 0);
  return detail::trace_maker{options, seed}.make();
}

}}}  // namespace causeway::CAUSEWAY_ABI::plan

#endif  // CAUSEWAY_PLAN_IMPL_PREEMPTION_TRACE_IPP
