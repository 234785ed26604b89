// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PLAN_IMPL_PREEMPTION_TRACE_TEXT_IPP
#define CAUSEWAY_PLAN_IMPL_PREEMPTION_TRACE_TEXT_IPP

// Bodies of plan/preemption_trace_text.hpp.

#include <causeway/plan/preemption_trace_text.hpp>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan { namespace detail {

CAUSEWAY_DECL std::string_view trimmed_field(std::string_view text) {
  constexpr std::string_view blanks = " \t\r";
  const std::size_t begin = text.find_first_not_of(blanks);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(blanks) - begin + 1);
}

CAUSEWAY_DECL std::vector<std::string_view> fields_of(std::string_view line) {
  std::vector<std::string_view> fields;
  for (;;) {
    const std::size_t end = line.find(',');
    fields.push_back(trimmed_field(line.substr(0, end)));
    if (end == std::string_view::npos) return fields;
    line.remove_prefix(end + 1);
  }
}

CAUSEWAY_DECL trace_reader::trace_reader(const trace_text_options& o)
    : options_{o}, per_second_{o.per_second}, draw_{o.seed, mix(0x636f756e74U)} {}

CAUSEWAY_DECL std::string trace_reader::quoted(std::string_view field) {
  return '"' + std::string{field.substr(0, 40)} + '"';
}

CAUSEWAY_DECL result<preemption_trace> trace_reader::read(std::string_view text) {
  if (text.size() > longest_trace_text)
    return fail(errc::too_large, options_.name, "longer than 16 MiB; cut it into shorter traces");
  for (line_ = 1; !text.empty(); ++line_) {
    const std::size_t end = text.find('\n');
    const std::string_view whole = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    const std::string_view line = trimmed_field(whole.substr(0, whole.find('#')));
    if (!line.empty()) CAUSEWAY_TRY(take(fields_of(line)));
  }
  if (!known_) return fail(errc::bad_text, options_.name, "has no line with a time; see docs/reference/traces.md");
  if (trace_.zones.empty()) trace_.zones.emplace_back();
  return std::move(trace_);
}

CAUSEWAY_DECL error trace_reader::wrong(const std::string& what) const {
  return fail(errc::bad_text, options_.name + ", line " + std::to_string(line_), what);
}

CAUSEWAY_DECL result<void> trace_reader::take(const std::vector<std::string_view>& fields) {
  if (!known_) {
    known_ = true;
    width_ = fields.size();
    if (!is_number(fields[0])) return take_header(fields);
    if (width_ != 2 && width_ != 3)
      return wrong("a table without names of columns has 2 (time,count) or 3 (time,add|remove,instance), not " +
                   std::to_string(width_));
    (width_ == 2 ? count_ : event_) = 1;
    if (width_ == 3) instance_ = 2;
    time_ = 0;
  }
  if (fields.size() != width_)
    return wrong("has " + std::to_string(fields.size()) + " fields, the first line " + std::to_string(width_));
  CAUSEWAY_ASSIGN(const double seconds, time_from(fields[time_]));
  trace_.seconds = seconds;
  return count_ != absent ? take_count(seconds, fields[count_]) : take_event(seconds, fields);
}

CAUSEWAY_DECL result<void> trace_reader::take_header(const std::vector<std::string_view>& names) {
  for (std::size_t i = 0; i < names.size(); ++i) {
    const std::string_view n = names[i];
    std::size_t* column = nullptr;
    if (n == "time" || n == "seconds" || n == "milliseconds") column = &time_;
    if (n == "event") column = &event_;
    if (n == "instance" || n == "node") column = &instance_;
    if (n == "zone") column = &zone_;
    if (n == "count") column = &count_;
    if (column == nullptr) continue;  // columns for people
    if (*column != absent) return wrong("names the column " + quoted(n) + " twice");
    *column = i;
    if (n == "seconds") per_second_ = 1;
    if (n == "milliseconds") per_second_ = 1000;
  }
  if (time_ == absent) return wrong("names no column seconds, milliseconds or time");
  const bool events = event_ != absent && instance_ != absent;
  if (events == (count_ != absent)) return wrong("names either event and instance, or count");
  return {};
}

CAUSEWAY_DECL bool trace_reader::is_number(std::string_view field) {
  double value = 0;
  const auto [end, code] = std::from_chars(field.data(), field.data() + field.size(), value);
  return !field.empty() && code == std::errc{} && end == field.data() + field.size() && std::isfinite(value);
}

CAUSEWAY_DECL result<double> trace_reader::time_from(std::string_view field) {
  if (!is_number(field)) return wrong("the time is not a number: " + quoted(field));
  double value = 0;
  std::from_chars(field.data(), field.data() + field.size(), value);
  value /= per_second_;
  if (!(value >= 0 && value <= longest_trace)) return wrong("times are from 0 to 1e9 seconds, not " + quoted(field));
  if (value < trace_.seconds) return wrong("goes back in time; sort the lines");
  return value;
}

CAUSEWAY_DECL result<void> trace_reader::take_event(double seconds, const std::vector<std::string_view>& fields) {
  const std::string_view what = fields[event_], name = fields[instance_];
  if (what == "end") return {};  // only makes the trace as long as that
  if (what != "add" && what != "remove") return wrong("the event is add, remove or end, not " + quoted(what));
  if (name.empty() || name.size() > 64) return wrong("the instance's name has 1 to 64 bytes");
  CAUSEWAY_ASSIGN(const std::uint32_t id, instance_of(name, zone_ == absent ? std::string_view{} : fields[zone_]));
  return add(seconds, what == "add", id);
}

CAUSEWAY_DECL result<std::uint32_t> trace_reader::instance_of(std::string_view name, std::string_view zone) {
  if (zone.size() > 64) return wrong("the zone's name has at most 64 bytes");
  const auto z = zones_.emplace(std::string{zone}, static_cast<std::uint32_t>(zones_.size()));
  if (z.second) trace_.zones.emplace_back(zone);
  const auto id = ids_.emplace(std::string{name}, static_cast<std::uint32_t>(ids_.size()));
  if (id.second) {
    trace_.instances.push_back({std::string{name}, z.first->second});
    here_.push_back(false);
    place_.push_back(0);
  }
  if (trace_.instances[id.first->second].zone != z.first->second)
    return wrong(quoted(name) + " was in another zone before");
  return id.first->second;
}

CAUSEWAY_DECL result<void> trace_reader::add(double seconds, bool arrives, std::uint32_t id) {
  if (here_[id] == arrives)
    return wrong(quoted(trace_.instances[id].name) + (arrives ? " is there already" : " is not there"));
  if (trace_.events.size() == most_trace_events || (arrives && live_.size() == most_trace_instances))
    return fail(errc::too_large, options_.name + ", line " + std::to_string(line_),
                "more than 1,048,576 events, or 65,536 instances at one time");
  here_[id] = arrives;
  if (arrives) {
    place_[id] = live_.size();
    live_.push_back(id);
  } else {
    live_[place_[id]] = live_.back();
    place_[live_.back()] = place_[id];
    live_.pop_back();
  }
  trace_.events.push_back({seconds, arrives, id});
  return {};
}

CAUSEWAY_DECL result<void> trace_reader::take_count(double seconds, std::string_view field) {
  std::uint32_t count = 0;
  const auto [end, code] = std::from_chars(field.data(), field.data() + field.size(), count);
  if (field.empty() || code != std::errc{} || end != field.data() + field.size() || count > most_trace_instances)
    return wrong("the count is a whole number up to 65,536, not " + quoted(field));
  while (live_.size() < count) {
    CAUSEWAY_ASSIGN(const std::uint32_t id, instance_of("node" + std::to_string(ids_.size() + 1), {}));
    CAUSEWAY_TRY(add(seconds, true, id));
  }
  while (live_.size() > count) CAUSEWAY_TRY(add(seconds, false, live_[draw_.below(live_.size())]));
  return {};
}

}}}}  // namespace causeway::CAUSEWAY_ABI::plan::detail

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan {

CAUSEWAY_DECL result<preemption_trace> read_trace(std::string_view text, const trace_text_options& options) {
  return detail::trace_reader{options}.read(text);
}

CAUSEWAY_DECL std::string write_trace(const preemption_trace& trace) {
  std::string text = "milliseconds,event,instance,zone\n";
  const auto ms = [](double seconds) { return std::to_string(std::llround(seconds * 1000)); };
  for (const instance_event& e : trace.events) {
    const trace_instance& i = trace.instances[e.instance];
    text += ms(e.seconds) + (e.arrives ? ",add," : ",remove,") + i.name + ',' + trace.zones[i.zone] + '\n';
  }
  return text + ms(trace.seconds) + ",end,,\n";
}

}}}  // namespace causeway::CAUSEWAY_ABI::plan

#endif  // CAUSEWAY_PLAN_IMPL_PREEMPTION_TRACE_TEXT_IPP
