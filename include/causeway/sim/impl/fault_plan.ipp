// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_SIM_IMPL_FAULT_PLAN_IPP
#define CAUSEWAY_SIM_IMPL_FAULT_PLAN_IPP

#include <causeway/sim/fault_plan.hpp>

#include <charconv>
#include <limits>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace sim {

CAUSEWAY_DECL bool fault_plan::is_undo(std::size_t i) const {
  return std::any_of(faults.begin(), faults.begin() + static_cast<std::ptrdiff_t>(i),
                     [&](const fault& earlier) { return undoes(faults[i], earlier); });
}

CAUSEWAY_DECL bool undoes(const fault& later, const fault& earlier) {
  const auto wanted = detail::opposite(earlier.kind);
  if (!wanted || later.kind != *wanted || later.hosts != earlier.hosts || later.others != earlier.others) return false;
  if (later.kind != earlier.kind) return true;
  return later.amount == detail::normal_amount(later.kind) && earlier.amount != later.amount;
}

CAUSEWAY_DECL void fault_plan::sort() {
  std::stable_sort(faults.begin(), faults.end(), [](const fault& a, const fault& b) { return a.at < b.at; });
}

CAUSEWAY_DECL time_point fault_plan::end() const {
  time_point last{};
  for (const fault& f : faults) last = std::max(last, f.at);
  return last;
}

CAUSEWAY_DECL std::uint32_t fault_plan::hosts() const {
  std::uint32_t count = 0;
  for (const fault& f : faults) {
    for (const std::uint32_t host : f.hosts) count = std::max(count, host + 1);
    for (const std::uint32_t host : f.others) count = std::max(count, host + 1);
  }
  return count;
}

CAUSEWAY_DECL fault_plan fault_plan::without(std::size_t i) const {
  const auto first = faults.begin() + static_cast<std::ptrdiff_t>(i);
  const auto undo = std::find_if(first + 1, faults.end(), [&](const fault& later) { return undoes(later, *first); });
  fault_plan rest;
  for (auto f = faults.begin(); f != faults.end(); ++f) {
    if (f != first && f != undo) rest.faults.push_back(*f);
  }
  return rest;
}

}}}  // namespace causeway::CAUSEWAY_ABI::sim

namespace causeway { inline namespace CAUSEWAY_ABI { namespace sim { namespace detail {

CAUSEWAY_DECL std::string host_list(const std::vector<std::uint32_t>& hosts) {
  std::string text;
  for (const std::uint32_t host : hosts) text += (text.empty() ? "" : ",") + std::to_string(host);
  return text;
}

CAUSEWAY_DECL std::string exact(double value) {
  std::array<char, 40> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr;
  return {digits.data(), end};
}

CAUSEWAY_DECL std::string exact(time_point at) {
  const auto nanoseconds = static_cast<std::uint64_t>(at.since_start.count());
  std::string text = std::to_string(nanoseconds / 1'000'000'000);
  std::string rest = std::to_string(nanoseconds % 1'000'000'000);
  rest.insert(0, 9 - rest.size(), '0');
  rest.erase(rest.find_last_not_of('0') + 1);
  return rest.empty() ? text : text + '.' + rest;
}

CAUSEWAY_DECL result<time_point> moment_from(std::string_view field, const text::place& place) {
  const std::size_t dot = std::min(field.find('.'), field.size());
  CAUSEWAY_ASSIGN(const std::uint64_t whole,
                  text::number_from<std::uint64_t>(field.substr(0, dot), place, "the time in seconds"));
  if (whole > 9'000'000'000U) return place.wrong("the time is out of range");
  std::uint64_t fraction = 0;
  if (dot < field.size()) {
    std::string digits{field.substr(dot + 1)};
    if (digits.empty() || digits.size() > 9) return place.wrong("the time needs one to nine decimals after the point");
    digits.append(9 - digits.size(), '0');
    CAUSEWAY_ASSIGN(fraction, text::number_from<std::uint64_t>(digits, place, "the time in seconds"));
  }
  return time_point{duration{static_cast<std::int64_t>(whole * 1'000'000'000 + fraction)}};
}

CAUSEWAY_DECL result<std::vector<std::uint32_t>> hosts_from(std::string_view field, const text::place& place) {
  std::vector<std::uint32_t> hosts;
  for (const std::string_view part : text::split(field, ',')) {
    CAUSEWAY_ASSIGN(const auto host, text::number_from<std::uint32_t>(part, place, "a host"));
    if (host >= 1'000'000) return place.wrong("hosts are numbered from 0 to 999999");
    hosts.push_back(host);
  }
  return hosts;
}

CAUSEWAY_DECL result<fault> fault_from(std::string_view line, const text::place& place) {
  std::vector<std::string_view> words;
  for (const std::string_view word : text::split(line, ' ')) {
    if (!word.empty()) words.push_back(word);
  }
  if (words.size() < 3) return place.wrong("wants: seconds, what happens, hosts");
  fault f;
  CAUSEWAY_ASSIGN(f.at, moment_from(words[0], place));
  const auto name = std::find(fault_names.begin(), fault_names.end(), words[1]);
  if (name == fault_names.end()) return place.wrong("does not know \"" + std::string{words[1].substr(0, 40)} + '"');
  f.kind = static_cast<fault_kind>(name - fault_names.begin());
  CAUSEWAY_ASSIGN(f.hosts, hosts_from(words[2], place));
  std::size_t next = 3;
  if (between_hosts(f.kind)) {
    if (words.size() < 5 || words[3] != "|") return place.wrong("wants other hosts too: 0,1 | 2,3");
    CAUSEWAY_ASSIGN(f.others, hosts_from(words[4], place));
    next = 5;
  }
  if (has_amount(f.kind)) {
    if (words.size() <= next) return place.wrong("wants an amount at its end");
    constexpr double most = std::numeric_limits<double>::max();
    CAUSEWAY_ASSIGN(f.amount, text::number_between(words[next++], 0, most, place, "the amount"));
  }
  if (words.size() != next) return place.wrong("has more words than it should");
  return f;
}

}}}}  // namespace causeway::CAUSEWAY_ABI::sim::detail

namespace causeway { inline namespace CAUSEWAY_ABI { namespace sim {

CAUSEWAY_DECL std::string fault_plan::text() const {
  std::string all;
  for (const fault& f : faults) {
    all += detail::exact(f.at) + ' ' + std::string{to_string(f.kind)} + ' ' + detail::host_list(f.hosts);
    if (detail::between_hosts(f.kind)) all += " | " + detail::host_list(f.others);
    if (detail::has_amount(f.kind)) all += ' ' + detail::exact(f.amount);
    all += '\n';
  }
  return all;
}

CAUSEWAY_DECL result<fault_plan> fault_plan::parse(std::string_view text, const std::string& name) {
  fault_plan plan;
  CAUSEWAY_TRY(text::for_each_line(text, name, [&](std::string_view line, const text::place& place) -> result<void> {
    CAUSEWAY_ASSIGN(fault read, detail::fault_from(line, place));
    plan.faults.push_back(std::move(read));
    return {};
  }));
  return plan;
}

}}}  // namespace causeway::CAUSEWAY_ABI::sim

#endif  // CAUSEWAY_SIM_IMPL_FAULT_PLAN_IPP
