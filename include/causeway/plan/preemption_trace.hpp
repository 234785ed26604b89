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

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <queue>
#include <string>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan {

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

CAUSEWAY_DECL trace_summary summary_of(const preemption_trace& trace);

/// What a made-up trace is to be like.
struct trace_options {
  std::uint32_t instances = 48;     ///< asked for; all are there at the start
  std::uint32_t zones = 3;          ///< instances are spread over them in turn
  double hours = 24;                ///< length
  double hourly_loss_share = 0.10;  ///< of the live instances, in an hour on average
  double bulk = 3;                  ///< instances lost at once, on average, if the zone has as many; >= 1
  double replacement = 600;         ///< seconds until a lost instance is replaced, on average
};

/// A made-up trace; the same for the same options and seed. Times are whole milliseconds.
CAUSEWAY_DECL preemption_trace make_trace(const trace_options& options, std::uint64_t seed);

}}}  // namespace causeway::CAUSEWAY_ABI::plan

#ifndef CAUSEWAY_COMPILED
#include <causeway/plan/impl/preemption_trace.ipp>
#endif

#endif  // CAUSEWAY_PLAN_PREEMPTION_TRACE_HPP
