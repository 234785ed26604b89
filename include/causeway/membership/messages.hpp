// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_MEMBERSHIP_MESSAGES_HPP
#define CAUSEWAY_MEMBERSHIP_MESSAGES_HPP

// What members say to each other, and its bytes: format, run, kind, fields. Most of it is `report`: all that a peer has
// promised, accepted, knows and offers, in one message. Receivers need no history of a conversation, so a report that
// answers one question is as good for the next, and a lost one is mended by the next heartbeat.
//
// Records and memberships are written as differences to the newest commit that the sender knows. A receiver that knows
// another one reads the rest of the message, is told that something is missing (`partial`), and asks for the whole.

#include <causeway/core/error.hpp>
#include <causeway/core/result.hpp>
#include <causeway/membership/durable_record.hpp>
#include <causeway/membership/ledger.hpp>
#include <causeway/membership/records.hpp>
#include <causeway/net/codec.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

namespace causeway::inline CAUSEWAY_ABI::membership {

/// Messages of another format are refused.
inline constexpr std::uint8_t message_format = 2;

namespace detail {

/// The newest commit that somebody knows. Round 0 with chain 0: none.
struct position {
  std::uint64_t round = 0;
  std::uint64_t chain = 0;

  [[nodiscard]] bool known() const noexcept { return chain != 0; }
  [[nodiscard]] bool older_than(const position& other) const noexcept {
    return other.known() && (!known() || round < other.round);
  }
  friend bool operator==(const position&, const position&) = default;
};

/// Member to leader, or to anybody who might know the leader: where I stand.
struct report {
  std::uint64_t sequence = 0;  ///< grows within a process
  ballot floor;
  net::peer_id promised_to = 0;
  position newest;
  std::optional<acceptance> accepted;  ///< for the round after newest
  bool partial = false;                ///< there is one that could not be read
  bool holds = false;                  ///< has the state of newest
  bool ready = false;                  ///< to make the next round
  bool leaving = false;
  std::uint64_t samples = 0;
  std::uint32_t trial_term = 0;  ///< would promise this term if it were asked in earnest
  std::uint32_t beat = 0;        ///< the heartbeat that this answers
  std::string address;           ///< where the sender can be dialled

  /// Whether it says the same as another one.
  [[nodiscard]] bool repeats(const report& r) const {
    return floor == r.floor && promised_to == r.promised_to && newest == r.newest && accepted == r.accepted &&
           partial == r.partial && holds == r.holds && ready == r.ready && leaving == r.leaving && samples == r.samples;
  }
};

/// Leader to everybody, at regular intervals.
struct heartbeat {
  std::uint32_t term = 0;
  std::uint32_t number = 0;
  position newest;
  std::uint32_t reachable = 0;  ///< members that the leader reaches
  bool quorum = false;          ///< whether they are enough
};

/// Candidate to members: promise me this term. A trial asks only whether they would.
struct campaign {
  std::uint32_t term = 0;
  bool trial = false;
  position newest;
};

/// To somebody who asked the wrong peer: whom to ask.
struct guide {
  std::uint32_t term = 0;
  located_peer leader;  ///< peer 0: not known
  std::vector<located_peer> others;
};

/// Leader to those who take part: begin. `proposal` is the record to come, state 0; it counts what the view says. Addresses
/// of the view are not on the wire: `news` has those that are new, `places` tells whether the receiver has all the others.
struct go {
  view who;
  commit_record proposal;
  std::vector<located_peer> news;
  std::uint64_t places = 0;  ///< places_of(who)
  bool partial = false;
};

/// Names the addresses of a view.
[[nodiscard]] inline std::uint64_t places_of(const view& who) {
  net::byte_writer out;
  for (const view_member& m : who.members) out.put(m.peer).put_text(m.address);
  return hash_bytes(out.bytes());
}

struct vote {
  ballot at;
  std::uint64_t round = 0;
  std::uint64_t state = 0;
};

struct failure {
  ballot at;
  errc why = errc::peer_lost;
  std::vector<net::peer_id> suspects;
};

/// Leader: from now on vote for nothing below `floor`, and report.
struct abort_attempt {
  ballot floor;
};

/// Leader: this value may have been chosen; take it over and vote for it in `at`.
struct adoption {
  ballot at;
  commit_record value;
  std::vector<located_peer> holders;
  bool partial = false;
};

/// A round is committed. `holders`: for those who do not hold its state. Who voted for the record has it already: a brief
/// notice leaves it out.
struct commit_notice {
  position of;
  commit_record record;
  certificate votes;
  std::vector<located_peer> holders;
  bool brief = false;
  bool partial = false;
};

/// The newest commit for somebody who misses more than one.
struct sync {
  commit_record record;
  certificate votes;
  ledger samples;
  std::vector<located_peer> holders;
};

/// Who has the newest committed state, for somebody who fetches it.
struct holder_list {
  position of;
  std::vector<located_peer> holders;
};

/// Leader to a peer that it leaves out for a while.
struct exclusion {
  std::string why;
};

/// Leader to a leaving peer: you may go (`you`). Anybody to its peers: I am gone.
struct farewell {
  bool you = false;
};

/// To a member: do you know this commit, or have you voted for it?
struct inquiry {
  position about;
};

/// The answer, also given later, once something is known.
struct confirmation {
  position newest;
  std::uint64_t before = 0;  ///< parent of newest
  std::uint64_t voted = 0;   ///< chain of the value voted for, for the round after newest; 0: none

  /// Whether it says that `chain` is committed, or that its sender voted for it.
  [[nodiscard]] bool supports(std::uint64_t chain) const noexcept {
    return chain != 0 && (newest.chain == chain || before == chain || voted == chain);
  }
};

/// Where are these? None: all members.
struct address_request {
  std::vector<net::peer_id> who;
};
/// The answer: those that are known.
struct address_list {
  std::vector<located_peer> places;
};

// ---- bytes, one pair for each kind
// ---------------------------------------------------------------------------------------

inline void put_flag(net::byte_writer& out, bool flag) { out.put(static_cast<std::uint8_t>(flag)); }
inline bool get_flag(net::byte_reader& in) { return in.get<std::uint8_t>() != 0; }

inline void write(net::byte_writer& out, const position& p) {
  out.put(p.round);
  put_wide(out, p.chain);
}
inline void read(net::byte_reader& in, position& p) {
  p.round = in.get<std::uint64_t>();
  p.chain = get_wide(in);
  if (p.round > max_round) in.refuse();
}

inline void write(net::byte_writer& out, const report& m, const base_record& base) {
  out.put(m.sequence);
  membership::write(out, m.floor);
  put_wide(out, m.promised_to);
  write(out, m.newest);
  put_flag(out, m.accepted.has_value());
  if (m.accepted) {
    membership::write(out, m.accepted->at);
    put_record(out, m.accepted->value, {}, base);
  }
  put_flag(out, m.holds);
  put_flag(out, m.ready);
  put_flag(out, m.leaving);
  out.put(m.samples).put(m.trial_term).put(m.beat).put_text(m.address);
}
inline void read(net::byte_reader& in, report& m, const base_record& base) {
  m.sequence = in.get<std::uint64_t>();
  m.floor = read_ballot(in);
  m.promised_to = get_wide(in);
  read(in, m.newest);
  if (get_flag(in)) {
    const ballot at = read_ballot(in);
    auto value = get_record(in, base);
    if (value) m.accepted = acceptance{at, std::move(value->record)};
    m.partial = !value;
  }
  m.holds = get_flag(in);
  m.ready = get_flag(in);
  m.leaving = get_flag(in);
  m.samples = in.get<std::uint64_t>();
  m.trial_term = in.get<std::uint32_t>();
  m.beat = in.get<std::uint32_t>();
  m.address = in.get_text(max_address_bytes);
}

inline void write(net::byte_writer& out, const heartbeat& m) {
  out.put(m.term).put(m.number);
  write(out, m.newest);
  out.put(m.reachable);
  put_flag(out, m.quorum);
}
inline void read(net::byte_reader& in, heartbeat& m) {
  m.term = in.get<std::uint32_t>();
  if (m.term > ballot::max_term) in.refuse();
  m.number = in.get<std::uint32_t>();
  read(in, m.newest);
  m.reachable = in.get<std::uint32_t>();
  m.quorum = get_flag(in);
}

inline void write(net::byte_writer& out, const campaign& m) {
  out.put(m.term);
  put_flag(out, m.trial);
  write(out, m.newest);
}
inline void read(net::byte_reader& in, campaign& m) {
  m.term = in.get<std::uint32_t>();
  if (m.term > ballot::max_term) in.refuse();
  m.trial = get_flag(in);
  read(in, m.newest);
}

inline void write(net::byte_writer& out, const guide& m) {
  out.put(m.term);
  put_wide(out, m.leader.peer);
  out.put_text(m.leader.address);
  write_located(out, m.others);
}
inline void read(net::byte_reader& in, guide& m) {
  m.term = in.get<std::uint32_t>();
  m.leader.peer = get_wide(in);
  m.leader.address = in.get_text(max_address_bytes);
  m.others = read_located(in);
}

inline void write(net::byte_writer& out, const go& m, const base_record& base) {
  std::vector<net::peer_id> ids;
  std::vector<std::uint64_t> samples;
  for (const view_member& v : m.who.members) {
    ids.push_back(v.peer);
    samples.push_back(v.samples);
  }
  net::byte_writer body;
  put_list(body, ids, base.members(m.who.parent));
  put_counts(body, samples);
  write_located(body, m.news);
  body.put(m.places);
  put_list(body, m.proposal.members, ids);
  put_list(body, m.proposal.returned, base.members(m.who.parent));
  put_wide(body, m.proposal.ledger);
  membership::write(out, m.who.at);
  put_flag(out, base.precedes(m.who.parent));
  out.put(m.proposal.run).put(m.who.round);
  put_wide(out, m.who.parent);
  out.put_bytes(body.bytes());
}
inline void read(net::byte_reader& in, go& m, const base_record& base) {
  m.who.at = m.proposal.at = read_ballot(in);
  const bool differs = get_flag(in);
  m.proposal.run = in.get<std::uint64_t>();
  m.who.round = m.proposal.round = in.get<std::uint64_t>();
  m.who.parent = m.proposal.parent = get_wide(in);
  net::byte_reader body{in.get_bytes(net::max_post_bytes)};
  m.partial = differs && !base.precedes(m.who.parent);
  if (!in.ok() || m.partial) return;
  const auto before = differs ? base.members(m.who.parent) : std::span<const net::peer_id>{};
  const std::vector<net::peer_id> ids = get_list(body, before, max_members);
  const std::vector<std::uint64_t> samples = get_counts(body, ids.size());
  for (std::size_t i = 0; i < ids.size(); ++i) {
    m.who.members.push_back({ids[i], {}, samples[i]});
    if (samples[i] > 0) m.proposal.contributions.push_back({ids[i], samples[i]});
  }
  m.news = read_located(body);
  m.places = body.get<std::uint64_t>();
  m.proposal.members = get_list(body, ids, max_members);
  m.proposal.returned = get_list(body, before, max_members);
  m.proposal.ledger = get_wide(body);
  if (m.who.round > max_round || !body.finish("go")) in.refuse();
}

inline void write(net::byte_writer& out, const vote& m) {
  membership::write(out, m.at);
  out.put(m.round);
  put_wide(out, m.state);
}
inline void read(net::byte_reader& in, vote& m) {
  m.at = read_ballot(in);
  m.round = in.get<std::uint64_t>();
  m.state = get_wide(in);
}

inline void write(net::byte_writer& out, const failure& m) {
  membership::write(out, m.at);
  out.put(static_cast<std::uint16_t>(m.why));
  write_peers(out, m.suspects);
}
inline void read(net::byte_reader& in, failure& m) {
  m.at = read_ballot(in);
  m.why = static_cast<errc>(in.get<std::uint16_t>());
  m.suspects = read_peers(in);
}

inline void write(net::byte_writer& out, const abort_attempt& m) { membership::write(out, m.floor); }
inline void read(net::byte_reader& in, abort_attempt& m) { m.floor = read_ballot(in); }

inline void write(net::byte_writer& out, const adoption& m, const base_record& base) {
  membership::write(out, m.at);
  put_record(out, m.value, {}, base);
  write_located(out, m.holders);
}
inline void read(net::byte_reader& in, adoption& m, const base_record& base) {
  m.at = read_ballot(in);
  auto value = get_record(in, base);
  m.partial = !value;
  if (value) m.value = std::move(value->record);
  m.holders = read_located(in);
}

inline void write(net::byte_writer& out, const commit_notice& m, const base_record& base) {
  write(out, m.of);
  put_flag(out, m.brief);
  if (m.brief) {
    net::byte_writer votes;
    put_certificate(votes, m.votes, base.record != nullptr ? base.record->members : m.record.members);
    out.put_bytes(votes.bytes());
  } else {
    put_record(out, m.record, m.votes, base);
  }
  write_located(out, m.holders);
}
inline void read(net::byte_reader& in, commit_notice& m, const base_record& base) {
  read(in, m.of);
  m.brief = get_flag(in);
  if (m.brief) {
    net::byte_reader votes{in.get_bytes(net::max_post_bytes)};
    m.partial = base.record == nullptr || m.of.round != base.record->round + 1;
    if (!m.partial) m.votes = get_certificate(votes, base.record->members);
    if (!m.partial && !votes.finish("votes")) in.refuse();
  } else if (auto told = get_record(in, base)) {
    m.record = std::move(told->record);
    m.votes = std::move(told->votes);
  } else {
    m.partial = true;
  }
  m.holders = read_located(in);
}

inline void write(net::byte_writer& out, const sync& m) {
  put_record(out, m.record, m.votes, {});
  m.samples.encode(out, m.record.members);
  write_located(out, m.holders);
}
inline void read(net::byte_reader& in, sync& m) {
  auto told = get_record(in, {});
  if (!told) return in.refuse();
  m.record = std::move(told->record);
  m.votes = std::move(told->votes);
  m.samples = ledger::decode(in, m.record.members);
  m.holders = read_located(in);
}

inline void write(net::byte_writer& out, const holder_list& m) {
  write(out, m.of);
  write_located(out, m.holders);
}
inline void read(net::byte_reader& in, holder_list& m) {
  read(in, m.of);
  m.holders = read_located(in);
}

inline void write(net::byte_writer& out, const exclusion& m) { out.put_text(m.why); }
inline void read(net::byte_reader& in, exclusion& m) { m.why = in.get_text(1024); }

inline void write(net::byte_writer& out, const farewell& m) { put_flag(out, m.you); }
inline void read(net::byte_reader& in, farewell& m) { m.you = get_flag(in); }

inline void write(net::byte_writer& out, const inquiry& m) { write(out, m.about); }
inline void read(net::byte_reader& in, inquiry& m) { read(in, m.about); }

inline void write(net::byte_writer& out, const confirmation& m) {
  write(out, m.newest);
  put_wide(out, m.before);
  put_wide(out, m.voted);
}
inline void read(net::byte_reader& in, confirmation& m) {
  read(in, m.newest);
  m.before = get_wide(in);
  m.voted = get_wide(in);
}

inline void write(net::byte_writer& out, const address_request& m) { write_peers(out, m.who); }
inline void read(net::byte_reader& in, address_request& m) { m.who = read_peers(in); }

inline void write(net::byte_writer& out, const address_list& m) { write_located(out, m.places); }
inline void read(net::byte_reader& in, address_list& m) { m.places = read_located(in); }

/// Any message. The place in the list is the kind on the wire: append, never reorder.
using message = std::variant<report, heartbeat, campaign, guide, go, vote, failure, abort_attempt, adoption, commit_notice,
                             sync, holder_list, exclusion, farewell, inquiry, confirmation, address_request, address_list>;

template <class Message, class... All>
constexpr std::size_t place_in(const std::variant<All...>*) {
  std::size_t place = 0;
  (void)((std::is_same_v<Message, All> || (++place, false)) || ...);
  return place;
}
/// Its place in the list.
template <class Message>
inline constexpr std::size_t number_of = place_in<Message>(static_cast<const message*>(nullptr));

/// Of an encoded message; none of the list for what is no message.
[[nodiscard]] inline std::size_t kind_of(std::span<const std::byte> bytes) {
  net::byte_reader in{bytes};
  (void)in.get<std::uint8_t>();
  (void)in.get<std::uint64_t>();
  const std::size_t which = in.get<std::uint8_t>();
  return in.ok() ? which : std::variant_size_v<message>;
}

/// Kind `kind`, default-made; refuses unknown ones.
template <std::size_t I = 0>
message read_kind(net::byte_reader& in, std::size_t kind, const base_record& base) {
  if constexpr (I < std::variant_size_v<message>) {
    if (kind != I) return read_kind<I + 1>(in, kind, base);
    std::variant_alternative_t<I, message> m;
    if constexpr (requires { read(in, m, base); }) {
      read(in, m, base);
    } else {
      read(in, m);
    }
    return m;
  } else {
    in.refuse();
    return farewell{};
  }
}

/// `base`: the newest commit that the sender knows.
[[nodiscard]] inline std::vector<std::byte> encode(std::uint64_t run, const message& m, const base_record& base = {}) {
  net::byte_writer out;
  out.put(message_format).put(run).put(static_cast<std::uint8_t>(m.index()));
  std::visit(
      [&](const auto& body) {
        if constexpr (requires { write(out, body, base); }) {
          write(out, body, base);
        } else {
          write(out, body);
        }
      },
      m);
  return std::move(out).take();
}

/// `base`: the newest commit that the receiver knows. errc::wrong_run, errc::version_mismatch, errc::corrupt or
/// errc::too_large for what is no message of this run.
[[nodiscard]] inline result<message> decode_message(std::uint64_t run, std::span<const std::byte> bytes,
                                                    const base_record& base = {}) {
  net::byte_reader in{bytes};
  const auto format = in.get<std::uint8_t>();
  if (format != message_format) return fail(errc::version_mismatch, "membership message", "of another format");
  if (in.get<std::uint64_t>() != run) return fail(errc::wrong_run, "membership message", "of another run");
  message m = read_kind(in, in.get<std::uint8_t>(), base);
  CAUSEWAY_TRY(in.finish("membership message"));
  return m;
}

}  // namespace detail

}  // namespace causeway::inline CAUSEWAY_ABI::membership

#endif  // CAUSEWAY_MEMBERSHIP_MESSAGES_HPP
