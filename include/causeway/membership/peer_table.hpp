// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_MEMBERSHIP_PEER_TABLE_HPP
#define CAUSEWAY_MEMBERSHIP_PEER_TABLE_HPP

// What the parts of a protocol share: the peers met so far, the acceptor, and the way out. A message to ourselves waits in
// a queue until the current event is done, so that a leader is a member like any other.

#include <causeway/membership/acceptor.hpp>
#include <causeway/membership/messages.hpp>
#include <causeway/membership/situation.hpp>
#include <causeway/net/deadline.hpp>

#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace causeway::inline CAUSEWAY_ABI::membership::detail {

/// What we know of one peer. Down, and nothing said, in the beginning.
struct peer_entry {
  std::string address;
  bool up = false;
  time_point heard;               ///< when it last said anything
  net::arrival_statistics beats;  ///< between its answers to heartbeats, or between its heartbeats
  std::uint32_t last_beat = 0;    ///< number of the last one
  time_point beat_at;             ///< when it came

  // As its leader sees it.
  std::optional<report> said;     ///< on this connection
  std::uint64_t holds_round = 0;  ///< the newest round whose state it has told us to hold
  std::uint64_t rounds_told = 0;  ///< the newest round it was told on this connection
  ballot told_floor;              ///< the newest abort it was told on this connection
  ballot told_adoption;
  std::uint32_t rounds_down = 0;  ///< commits since it was last up
  std::uint32_t misses = 0;       ///< rounds that began while this newcomer was not ready; waited for at 2, then from 0
  time_point told_at;             ///< when it was told of the newest
  std::uint32_t wasted = 0;       ///< graces in a row that it did not use
  std::uint32_t unwaited = 0;     ///< rounds that are not held up for it
  std::uint32_t exclusions = 0;   ///< in a row
  std::uint32_t pause = 0;        ///< attempts that it still sits out
};

/// Shared by the parts of one protocol.
class peer_table {
 public:
  peer_table(options o, durable_record record, effects& fx)
      : settings{std::move(o)}, votes{std::move(record), fx}, out{&fx}, self{votes.durable().self} {
    entry(self).up = true;
    entry(self).address = settings.address;
  }

  const options settings;
  acceptor votes;
  effects* const out;
  const net::peer_id self;
  time_point now;
  std::map<net::peer_id, peer_entry> peers;  ///< ourselves included
  std::deque<message> to_self;

  [[nodiscard]] peer_entry& entry(net::peer_id id) {
    const auto [at, added] = peers.try_emplace(id);
    if (added) at->second.beats = net::arrival_statistics{settings.silence};
    return at->second;
  }

  [[nodiscard]] const peer_entry* find(net::peer_id id) const {
    const auto at = peers.find(id);
    return at == peers.end() ? nullptr : &at->second;
  }

  [[nodiscard]] bool up(net::peer_id id) const {
    const peer_entry* p = find(id);
    return p != nullptr && p->up;
  }

  /// From the peer itself, or from others who met it; empty where nobody said.
  [[nodiscard]] std::string address_of(net::peer_id id) const {
    const peer_entry* p = find(id);
    if (p != nullptr && !p->address.empty()) return p->address;
    const auto& book = votes.durable().others;
    const auto at = std::lower_bound(book.begin(), book.end(), id, by_peer);
    return at == book.end() || at->peer != id ? std::string{} : at->address;
  }

  /// Keeps where peers are, ourselves not among them; written with the next durable step. `met`: ascending.
  void remember(const std::vector<located_peer>& met) {
    const auto& book = votes.durable().others;
    const auto known = [&](const located_peer& p) {
      const auto at = std::lower_bound(book.begin(), book.end(), p.peer, by_peer);
      return at != book.end() && *at == p;
    };
    if (std::all_of(met.begin(), met.end(), known)) return;
    std::vector<located_peer> all = met;
    for (const located_peer& p : book) {
      const auto at = std::lower_bound(met.begin(), met.end(), p.peer, by_peer);
      if (all.size() < max_members && (at == met.end() || at->peer != p.peer)) all.push_back(p);
    }
    std::sort(all.begin(), all.end(), [](const auto& x, const auto& y) { return x.peer < y.peer; });
    votes.remember(std::move(all));
  }

  /// C of the newest commit known; nobody where none is known.
  [[nodiscard]] const std::vector<net::peer_id>& members() const {
    static const std::vector<net::peer_id> none;
    const auto& newest = votes.durable().newest;
    return newest ? newest->members : none;
  }

  /// The members for which `test(id, entry)` holds. Entries of members exist: see remember_members.
  template <class Test>
  [[nodiscard]] std::vector<net::peer_id> members_that(Test test) const {
    std::vector<net::peer_id> chosen;
    for (const net::peer_id id : members()) {
      const peer_entry* p = find(id);
      if (p != nullptr && test(id, *p)) chosen.push_back(id);
    }
    return chosen;
  }

  [[nodiscard]] bool quorum_up() const {
    return is_quorum(members(), members_that([](net::peer_id, const peer_entry& p) { return p.up; }));
  }

  /// Nothing leaves a peer whose record could not be written.
  void post(net::peer_id to, const message& m) {
    if (!votes.broken().empty()) return;
    if (to == self) {
      to_self.push_back(m);
    } else if (up(to)) {
      out->send(to, encode(settings.run, m));
    }
  }

  /// The same bytes to many.
  void post_all(const std::vector<net::peer_id>& to, const message& m) {
    if (!votes.broken().empty()) return;
    const std::vector<std::byte> bytes = encode(settings.run, m);
    for (const net::peer_id id : to) {
      if (id == self) {
        to_self.push_back(m);
      } else if (up(id)) {
        out->send(id, bytes);
      }
    }
  }

  void reject(reject_reason why, net::peer_id from) {
    ++rejected_[static_cast<std::size_t>(why)];
    event e;
    e.what = event::reject;
    e.at_time = now;
    e.peer = self;
    e.from = from;
    e.text = to_string(why);
    out->note(e);
  }
  [[nodiscard]] std::uint64_t rejected(reject_reason why) const { return rejected_[static_cast<std::size_t>(why)]; }

  /// Some peers that others may ask: those within reach first.
  [[nodiscard]] std::vector<located_peer> some_peers(std::size_t limit) const {
    std::vector<located_peer> list;
    for (const auto& [id, p] : peers) {
      if (list.size() < limit && id != self && p.up && !p.address.empty()) list.push_back({id, p.address});
    }
    for (const located_peer& p : votes.durable().others) {
      if (list.size() < limit && !up(p.peer)) list.push_back(p);
    }
    return list;
  }

 private:
  static bool by_peer(const located_peer& p, net::peer_id id) { return p.peer < id; }

  std::array<std::uint64_t, reject_reasons> rejected_{};
};

}  // namespace causeway::inline CAUSEWAY_ABI::membership::detail

#endif  // CAUSEWAY_MEMBERSHIP_PEER_TABLE_HPP
