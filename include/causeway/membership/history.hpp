// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_MEMBERSHIP_HISTORY_HPP
#define CAUSEWAY_MEMBERSHIP_HISTORY_HPP

// What a peer says about itself for the checker: one event, one line of text. The protocol notes what it promises, votes
// for and learns; whoever drives it adds what it trained, held and accepted. membership/checker.hpp says what must be true
// of the histories of all peers together.

#include <causeway/core/clock.hpp>
#include <causeway/core/result.hpp>
#include <causeway/membership/ledger.hpp>
#include <causeway/membership/records.hpp>

#include <array>
#include <charconv>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace causeway::inline CAUSEWAY_ABI::membership {

/// One thing that one peer did. Fields that a kind does not use stay 0 or empty.
struct event {
  enum kind : std::uint8_t {
    boot,     ///< a process began: at = floor, round and parent = newest commit (by chain), hash = accepted chain or 0
    promise,  ///< at = floor, from = to whom; durable
    bar,      ///< at = floor: will not vote below it; durable
    lead,     ///< won the term in `at` for `round` (the one to be made)
    accept,   ///< voted: at, round, hash = chain of the record, parent; durable
    commit,   ///< learned: at, round, hash = state, parent, chain; members, contributions, returned, ledger
    held,     ///< has the full state of a round: round, hash = state
    trained,  ///< ranges = all numbers trained on since the last contribution, for `round`, based on `parent`
    update_accepted,  ///< a data message was let in: from, at, round, parent
    reject,           ///< something was refused: from, text = why
    left,             ///< takes no part any more
    refound,          ///< founded a run on a commit of another: round, hash = state, parent = that commit, chain
  };

  kind what = boot;
  time_point at_time;
  net::peer_id peer = 0;
  net::peer_id from = 0;
  ballot at;
  ballot voted;
  std::uint64_t round = 0;
  std::uint64_t hash = 0;
  std::uint64_t parent = 0;
  std::uint64_t chain = 0;
  std::uint64_t ledger = 0;
  std::vector<net::peer_id> members;
  std::vector<contribution> contributions;
  std::vector<net::peer_id> returned;
  std::vector<sample_range> ranges;
  std::string text;  ///< the rest of the line; no line breaks

  friend bool operator==(const event&, const event&) = default;
};

namespace detail {
inline constexpr std::array<std::string_view, 12> event_names{
    "boot",    "promise",         "bar",    "lead", "accept", "commit", "held",
    "trained", "update_accepted", "reject", "left", "refound"};

inline void add_field(std::string& line, std::string_view name, std::uint64_t value) {
  if (value != 0) line.append(" ").append(name).append("=").append(std::to_string(value));
}

template <class List, class Show>
void add_list(std::string& line, std::string_view name, const List& list, Show show) {
  if (list.empty()) return;
  line.append(" ").append(name).append("=");
  for (std::size_t i = 0; i < list.size(); ++i) line.append(i > 0 ? "," : "").append(show(list[i]));
}

inline std::string pair_text(std::uint64_t a, std::uint64_t b) { return std::to_string(a) + ":" + std::to_string(b); }

/// Numbers "1:2,3:4" in groups of `width`; false where the text is anything else.
inline bool read_numbers(std::string_view text, std::size_t width, std::vector<std::uint64_t>& numbers) {
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

inline bool read_field(event& e, std::string_view name, std::string_view value);

}  // namespace detail

/// One line without its end: `<nanoseconds> <peer> <kind> name=value ...`.
[[nodiscard]] inline std::string to_line(const event& e) {
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

/// The event of a line that to_line wrote; errc::corrupt for any other.
[[nodiscard]] inline result<event> parse_event(std::string_view line) {
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

namespace detail {

inline bool read_field(event& e, std::string_view name, std::string_view value) {
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
    (name == "at" ? e.at : e.voted) = {static_cast<std::uint32_t>(n[0]), static_cast<std::uint32_t>(n[1])};
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

}  // namespace detail

}  // namespace causeway::inline CAUSEWAY_ABI::membership

#endif  // CAUSEWAY_MEMBERSHIP_HISTORY_HPP
