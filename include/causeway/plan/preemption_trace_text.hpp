// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PLAN_PREEMPTION_TRACE_TEXT_HPP
#define CAUSEWAY_PLAN_PREEMPTION_TRACE_TEXT_HPP

// Traces of preemptions as CSV: docs/reference/traces.md. Three kinds of tables are told apart by their first line: columns
// with names; "time,add|remove,instance" as Oobleck's; "time,count" as Bamboo's and Parcae's. Text is not trusted: sizes
// are bounded, and every error names its line.

#include <causeway/config/config.hpp>
#include <causeway/core/result.hpp>
#include <causeway/core/rng.hpp>
#include <causeway/core/table_text.hpp>
#include <causeway/plan/preemption_trace.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan {

struct trace_text_options {
  std::string name = "trace";  ///< for messages
  double per_second = 1000;    ///< units of a time column that does not say its own: Oobleck, Parcae; 1: Bamboo
  std::uint64_t seed = 0;      ///< of tables of counts: they do not say which instance leaves, so it is drawn
};

/// Reads a trace. errc::bad_text names the line; errc::too_large beyond 16 MiB, 1,048,576 events or 65,536 instances at one
/// time. In tables of counts the instances that leave are drawn with `options.seed`.
CAUSEWAY_DECL result<preemption_trace> read_trace(std::string_view text, const trace_text_options& options = {});

/// As `milliseconds,event,instance,zone`; read_trace gives the same trace again if its times are whole milliseconds.
CAUSEWAY_DECL std::string write_trace(const preemption_trace& trace);

}}}  // namespace causeway::CAUSEWAY_ABI::plan

#ifndef CAUSEWAY_COMPILED
#include <causeway/plan/impl/preemption_trace_text.ipp>
#endif

#endif  // CAUSEWAY_PLAN_PREEMPTION_TRACE_TEXT_HPP
