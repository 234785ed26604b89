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

namespace detail {

inline constexpr std::size_t most_trace_events = std::size_t{1} << 20U;
inline constexpr std::size_t most_trace_instances = 65'536;  // at one time
inline constexpr double longest_trace = 1e9;                 // seconds: 31 years

class trace_reader {
 public:
  CAUSEWAY_DECL explicit trace_reader(const trace_text_options& o);

  CAUSEWAY_DECL result<preemption_trace> read(std::string_view text);

 private:
  static constexpr std::size_t absent = static_cast<std::size_t>(-1);

  [[nodiscard]] text::place here() const { return {options_.name, line_}; }
  [[nodiscard]] error wrong(const std::string& what) const { return here().wrong(what); }
  CAUSEWAY_DECL static std::string quoted(std::string_view field);

  CAUSEWAY_DECL result<void> take(const std::vector<std::string_view>& fields);

  CAUSEWAY_DECL result<void> take_header(const std::vector<std::string_view>& names);

  CAUSEWAY_DECL result<double> time_from(std::string_view field);

  CAUSEWAY_DECL result<void> take_event(double seconds, const std::vector<std::string_view>& fields);

  CAUSEWAY_DECL result<std::uint32_t> instance_of(std::string_view name, std::string_view zone);

  CAUSEWAY_DECL result<void> add(double seconds, bool arrives, std::uint32_t id);

  CAUSEWAY_DECL result<void> take_count(double seconds, std::string_view field);

  const trace_text_options& options_;
  double per_second_;
  rng draw_;
  preemption_trace trace_;
  std::map<std::string, std::uint32_t, std::less<>> ids_, zones_;
  std::vector<bool> here_;
  std::vector<std::uint32_t> live_;
  std::vector<std::size_t> place_;  // of those that are here, in live_
  std::size_t line_ = 0, width_ = 0;
  std::size_t time_ = absent, event_ = absent, instance_ = absent, zone_ = absent, count_ = absent;
  bool known_ = false;  // what the columns are
};

}  // namespace detail

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
