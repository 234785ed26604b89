// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_MEMBERSHIP_MESSAGES_HPP
#define CAUSEWAY_MEMBERSHIP_MESSAGES_HPP

// What members say to each other, and its bytes: format, run, kind, fields. Most of it is `report`: all that a peer has
// promised, accepted, knows and offers, in one message. Receivers need no history of a conversation, so a report that
// answers one question is as good for the next, and a lost one is mended by the next heartbeat.

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
#include <utility>
#include <variant>
#include <vector>

namespace causeway::inline CAUSEWAY_ABI::membership {

/// Messages of another format are refused.
inline constexpr std::uint8_t message_format = 1;

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
           holds == r.holds && ready == r.ready && leaving == r.leaving && samples == r.samples;
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

/// Leader to those who take part: begin. `proposal` is the record to come, state 0.
struct go {
  view who;
  commit_record proposal;
};

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
};

/// A round is committed. `holders`: for those who do not hold its state.
struct commit_notice {
  commit_record record;
  std::vector<located_peer> holders;
};

/// The newest commit for somebody who misses more than one.
struct sync {
  commit_record record;
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

// ---- bytes, one pair for each kind
// ---------------------------------------------------------------------------------------

inline void put_flag(net::byte_writer& out, bool flag) { out.put(static_cast<std::uint8_t>(flag)); }
inline bool get_flag(net::byte_reader& in) { return in.get<std::uint8_t>() != 0; }

inline void write(net::byte_writer& out, const position& p) { out.put(p.round).put(p.chain); }
inline void read(net::byte_reader& in, position& p) {
  p.round = in.get<std::uint64_t>();
  p.chain = in.get<std::uint64_t>();
}

inline void write(net::byte_writer& out, const report& m) {
  out.put(m.sequence);
  membership::write(out, m.floor);
  out.put(m.promised_to);
  write(out, m.newest);
  put_flag(out, m.accepted.has_value());
  if (m.accepted) {
    membership::write(out, m.accepted->at);
    membership::write(out, m.accepted->value);
  }
  put_flag(out, m.holds);
  put_flag(out, m.ready);
  put_flag(out, m.leaving);
  out.put(m.samples).put(m.trial_term).put(m.beat).put_text(m.address);
}
inline void read(net::byte_reader& in, report& m) {
  m.sequence = in.get<std::uint64_t>();
  m.floor = read_ballot(in);
  m.promised_to = in.get<std::uint64_t>();
  read(in, m.newest);
  if (get_flag(in)) {
    const ballot at = read_ballot(in);
    m.accepted = acceptance{at, read_commit_record(in)};
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
  out.put(m.term).put(m.leader.peer).put_text(m.leader.address);
  write_located(out, m.others);
}
inline void read(net::byte_reader& in, guide& m) {
  m.term = in.get<std::uint32_t>();
  m.leader.peer = in.get<std::uint64_t>();
  m.leader.address = in.get_text(max_address_bytes);
  m.others = read_located(in);
}

inline void write(net::byte_writer& out, const go& m) {
  membership::write(out, m.who);
  membership::write(out, m.proposal);
}
inline void read(net::byte_reader& in, go& m) {
  m.who = read_view(in);
  m.proposal = read_commit_record(in);
}

inline void write(net::byte_writer& out, const vote& m) {
  membership::write(out, m.at);
  out.put(m.round).put(m.state);
}
inline void read(net::byte_reader& in, vote& m) {
  m.at = read_ballot(in);
  m.round = in.get<std::uint64_t>();
  m.state = in.get<std::uint64_t>();
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

inline void write(net::byte_writer& out, const adoption& m) {
  membership::write(out, m.at);
  membership::write(out, m.value);
  write_located(out, m.holders);
}
inline void read(net::byte_reader& in, adoption& m) {
  m.at = read_ballot(in);
  m.value = read_commit_record(in);
  m.holders = read_located(in);
}

inline void write(net::byte_writer& out, const commit_notice& m) {
  membership::write(out, m.record);
  write_located(out, m.holders);
}
inline void read(net::byte_reader& in, commit_notice& m) {
  m.record = read_commit_record(in);
  m.holders = read_located(in);
}

inline void write(net::byte_writer& out, const sync& m) {
  membership::write(out, m.record);
  m.samples.encode(out);
  write_located(out, m.holders);
}
inline void read(net::byte_reader& in, sync& m) {
  m.record = read_commit_record(in);
  m.samples = ledger::decode(in);
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

/// Any message. The place in the list is the kind on the wire: append, never reorder.
using message = std::variant<report, heartbeat, campaign, guide, go, vote, failure, abort_attempt, adoption, commit_notice,
                             sync, holder_list, exclusion, farewell>;

/// Kind `kind`, default-made; refuses unknown ones.
template <std::size_t I = 0>
message read_kind(net::byte_reader& in, std::size_t kind) {
  if constexpr (I < std::variant_size_v<message>) {
    if (kind != I) return read_kind<I + 1>(in, kind);
    std::variant_alternative_t<I, message> m;
    read(in, m);
    return m;
  } else {
    in.refuse();
    return farewell{};
  }
}

[[nodiscard]] inline std::vector<std::byte> encode(std::uint64_t run, const message& m) {
  net::byte_writer out;
  out.put(message_format).put(run).put(static_cast<std::uint8_t>(m.index()));
  std::visit([&](const auto& body) { write(out, body); }, m);
  return std::move(out).take();
}

/// errc::wrong_run, errc::version_mismatch, errc::corrupt or errc::too_large for what is no message of this run.
[[nodiscard]] inline result<message> decode_message(std::uint64_t run, std::span<const std::byte> bytes) {
  net::byte_reader in{bytes};
  const auto format = in.get<std::uint8_t>();
  if (format != message_format) return fail(errc::version_mismatch, "membership message", "of another format");
  if (in.get<std::uint64_t>() != run) return fail(errc::wrong_run, "membership message", "of another run");
  message m = read_kind(in, in.get<std::uint8_t>());
  CAUSEWAY_TRY(in.finish("membership message"));
  return m;
}

}  // namespace detail

}  // namespace causeway::inline CAUSEWAY_ABI::membership

#endif  // CAUSEWAY_MEMBERSHIP_MESSAGES_HPP
