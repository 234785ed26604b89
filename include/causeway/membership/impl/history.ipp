// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_MEMBERSHIP_IMPL_HISTORY_IPP
#define CAUSEWAY_MEMBERSHIP_IMPL_HISTORY_IPP

#include <causeway/membership/history.hpp>

#include <algorithm>
#include <charconv>
#include <system_error>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace membership { namespace detail {

CAUSEWAY_DECL void add_field(std::string& line, std::string_view name, std::uint64_t value) {
  if (value != 0) line.append(" ").append(name).append("=").append(std::to_string(value));
}

CAUSEWAY_DECL bool read_numbers(std::string_view text, std::size_t width, std::vector<std::uint64_t>& numbers) {
  for (std::size_t i = 0; !text.empty(); ++i) {
    std::uint64_t value = 0;
    const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (failure != std::errc{}) return false;
    numbers.push_back(value);
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    if (text.empty()) break;
    if (text.size() < 2 || text.front() != ((i + 1) % width == 0 ? ',' : ':')) return false;
    text.remove_prefix(1);
  }
  return !numbers.empty() && numbers.size() % width == 0;
}

}}}}  // namespace causeway::CAUSEWAY_ABI::membership::detail

namespace causeway { inline namespace CAUSEWAY_ABI { namespace membership {

CAUSEWAY_DECL std::string to_line(const event& e) {
  std::string line = std::to_string(e.at_time.since_start.count()) + " " + std::to_string(e.peer) + " ";
  line += detail::event_names[e.what];
  detail::add_field(line, "from", e.from);
  if (e.at != ballot{}) line += " at=" + detail::pair_text(e.at.term, e.at.attempt);
  if (e.voted != ballot{}) line += " voted=" + detail::pair_text(e.voted.term, e.voted.attempt);
  detail::add_field(line, "round", e.round);
  detail::add_field(line, "hash", e.hash);
  detail::add_field(line, "parent", e.parent);
  detail::add_field(line, "chain", e.chain);
  detail::add_field(line, "ledger", e.ledger);
  const auto id = [](net::peer_id p) { return std::to_string(p); };
  detail::add_list(line, "members", e.members, id);
  detail::add_list(line, "contributions", e.contributions,
                   [](const contribution& c) { return detail::pair_text(c.peer, c.samples); });
  detail::add_list(line, "returned", e.returned, id);
  detail::add_list(line, "ranges", e.ranges, [](const sample_range& r) { return detail::pair_text(r.first, r.count); });
  if (!e.text.empty()) line += " text=" + e.text;
  return line;
}

CAUSEWAY_DECL result<event> parse_event(std::string_view line) {
  const auto bad = [&] { return fail(errc::corrupt, "history", "not a line of a history: " + std::string{line}); };
  std::string_view rest = line;
  const auto word = [&] {
    const std::size_t end = std::min(rest.find(' '), rest.size());
    const std::string_view w = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    return w;
  };
  event e;
  std::int64_t nanoseconds = 0;
  const std::string_view when = word();
  if (std::from_chars(when.data(), when.data() + when.size(), nanoseconds).ec != std::errc{}) return bad();
  e.at_time = {duration{nanoseconds}};
  if (!detail::read_field(e, "peer", word())) return bad();
  const std::string_view kind = word();
  const auto at = std::find(detail::event_names.begin(), detail::event_names.end(), kind);
  if (at == detail::event_names.end()) return bad();
  e.what = static_cast<event::kind>(at - detail::event_names.begin());
  while (!rest.empty()) {
    if (rest.starts_with("text=")) {
      e.text = rest.substr(5);
      break;
    }
    const std::string_view field = word();
    const std::size_t equals = std::min(field.find('='), field.size());
    if (!detail::read_field(e, field.substr(0, equals), field.substr(std::min(equals + 1, field.size())))) return bad();
  }
  return e;
}

}}}  // namespace causeway::CAUSEWAY_ABI::membership

namespace causeway { inline namespace CAUSEWAY_ABI { namespace membership { namespace detail {

CAUSEWAY_DECL bool read_field(event& e, std::string_view name, std::string_view value) {
  const bool is_ballot = name == "at" || name == "voted";
  const bool pairs = is_ballot || name == "contributions" || name == "ranges";
  std::vector<std::uint64_t> n;
  if (!read_numbers(value, pairs ? 2 : 1, n)) return false;
  if (name == "members") return e.members = n, true;
  if (name == "returned") return e.returned = n, true;
  for (std::size_t i = 0; i + 1 < n.size(); i += 2) {
    if (name == "ranges") e.ranges.push_back({n[i], n[i + 1]});
    if (name == "contributions") e.contributions.push_back({n[i], n[i + 1]});
  }
  if (name == "ranges" || name == "contributions") return true;
  if (n.size() != (pairs ? 2U : 1U)) return false;
  if (is_ballot) {
    if (n[0] > ballot::max_term || n[1] > ballot::max_attempt) return false;
    (name == "at" ? e.at : e.voted) = ballot{static_cast<std::uint32_t>(n[0]), static_cast<std::uint32_t>(n[1])};
    return true;
  }
  if (name == "peer") return e.peer = n[0], true;
  if (name == "from") return e.from = n[0], true;
  if (name == "round") return e.round = n[0], true;
  if (name == "hash") return e.hash = n[0], true;
  if (name == "parent") return e.parent = n[0], true;
  if (name == "chain") return e.chain = n[0], true;
  if (name == "ledger") return e.ledger = n[0], true;
  return false;
}

}}}}  // namespace causeway::CAUSEWAY_ABI::membership::detail

#endif  // CAUSEWAY_MEMBERSHIP_IMPL_HISTORY_IPP
