// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PLAN_IMPL_PREEMPTION_TRACE_TEXT_IPP
#define CAUSEWAY_PLAN_IMPL_PREEMPTION_TRACE_TEXT_IPP

#include <causeway/plan/preemption_trace_text.hpp>

#include <cmath>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan { namespace detail {

inline constexpr std::size_t most_trace_events = std::size_t{1} << 20U;
inline constexpr std::size_t most_trace_instances = 65'536;  // at one time
inline constexpr double longest_trace = 1e9;                 // seconds: 31 years

class trace_reader {
 public:
  CAUSEWAY_DECL explicit trace_reader(const trace_text_options& o)
      : options_{o}, per_second_{o.per_second}, draw_{o.seed, mix(0x636f756e74U)} {}

  CAUSEWAY_DECL result<preemption_trace> read(std::string_view text) {
    CAUSEWAY_TRY(text::for_each_line(text, options_.name, [this](std::string_view line, const text::place& at) {
      line_ = at.line;
      return take(text::split(line, ','));
    }));
    if (!known_) return fail(errc::bad_text, options_.name, "has no line with a time; see docs/reference/traces.md");
    if (trace_.zones.empty()) trace_.zones.emplace_back();
    return std::move(trace_);
  }

 private:
  static constexpr std::size_t absent = static_cast<std::size_t>(-1);

  [[nodiscard]] text::place here() const { return {options_.name, line_}; }
  [[nodiscard]] error wrong(const std::string& what) const { return here().wrong(what); }
  CAUSEWAY_DECL static std::string quoted(std::string_view field) { return '"' + std::string{field.substr(0, 40)} + '"'; }

  CAUSEWAY_DECL result<void> take(const std::vector<std::string_view>& fields) {
    if (!known_) {
      known_ = true;
      width_ = fields.size();
      if (!text::number_from<double>(fields[0], here(), "the time")) return take_header(fields);
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

  CAUSEWAY_DECL result<void> take_header(const std::vector<std::string_view>& names) {
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

  CAUSEWAY_DECL result<double> time_from(std::string_view field) {
    CAUSEWAY_ASSIGN(double value, text::number_from<double>(field, here(), "the time"));
    value /= per_second_;
    if (!(value >= 0 && value <= longest_trace)) return wrong("times are from 0 to 1e9 seconds, not " + quoted(field));
    if (value < trace_.seconds) return wrong("goes back in time; sort the lines");
    return value;
  }

  CAUSEWAY_DECL result<void> take_event(double seconds, const std::vector<std::string_view>& fields) {
    const std::string_view what = fields[event_], name = fields[instance_];
    if (what == "end") return {};  // only makes the trace as long as that
    if (what != "add" && what != "remove") return wrong("the event is add, remove or end, not " + quoted(what));
    if (name.empty() || name.size() > 64) return wrong("the instance's name has 1 to 64 bytes");
    CAUSEWAY_ASSIGN(const std::uint32_t id, instance_of(name, zone_ == absent ? std::string_view{} : fields[zone_]));
    return add(seconds, what == "add", id);
  }

  CAUSEWAY_DECL result<std::uint32_t> instance_of(std::string_view name, std::string_view zone) {
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

  CAUSEWAY_DECL result<void> add(double seconds, bool arrives, std::uint32_t id) {
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

  CAUSEWAY_DECL result<void> take_count(double seconds, std::string_view field) {
    const auto count = text::number_from<std::uint32_t>(field, here(), "the count");
    if (!count || *count > most_trace_instances)
      return wrong("the count is a whole number up to 65,536, not " + quoted(field));
    while (live_.size() < *count) {
      CAUSEWAY_ASSIGN(const std::uint32_t id, instance_of("node" + std::to_string(ids_.size() + 1), {}));
      CAUSEWAY_TRY(add(seconds, true, id));
    }
    while (live_.size() > *count) CAUSEWAY_TRY(add(seconds, false, live_[draw_.below(live_.size())]));
    return {};
  }

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
