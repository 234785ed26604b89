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
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace membership {

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

CAUSEWAY_DECL void add_field(std::string& line, std::string_view name, std::uint64_t value);

template <class List, class Show>
void add_list(std::string& line, std::string_view name, const List& list, Show show) {
  if (list.empty()) return;
  line.append(" ").append(name).append("=");
  for (std::size_t i = 0; i < list.size(); ++i) line.append(i > 0 ? "," : "").append(show(list[i]));
}

inline std::string pair_text(std::uint64_t a, std::uint64_t b) { return std::to_string(a) + ":" + std::to_string(b); }

/// Numbers "1:2,3:4" in groups of `width`; false where the text is anything else.
CAUSEWAY_DECL bool read_numbers(std::string_view text, std::size_t width, std::vector<std::uint64_t>& numbers);

CAUSEWAY_DECL bool read_field(event& e, std::string_view name, std::string_view value);

}  // namespace detail

/// One line without its end: `<nanoseconds> <peer> <kind> name=value ...`.
CAUSEWAY_DECL [[nodiscard]] std::string to_line(const event& e);

/// The event of a line that to_line wrote; errc::corrupt for any other.
CAUSEWAY_DECL [[nodiscard]] result<event> parse_event(std::string_view line);

}}}  // namespace causeway::CAUSEWAY_ABI::membership

#ifndef CAUSEWAY_COMPILED
#include <causeway/membership/impl/history.ipp>
#endif

#endif  // CAUSEWAY_MEMBERSHIP_HISTORY_HPP
