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
#include <causeway/net/envelope.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <variant>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace membership { namespace detail {

inline constexpr net::envelope::kind messages{"membership message", "", 4};

/// The newest commit that somebody knows. Round 0 with chain 0: none.
struct position {
  std::uint64_t round = 0;
  std::uint64_t chain = 0;

  [[nodiscard]] bool known() const noexcept { return chain != 0; }
  CAUSEWAY_DECL [[nodiscard]] bool older_than(const position& other) const noexcept;
  void fields(auto& wire) { wire(net::below{round, max_round + 1}, wide{chain}); }
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
  bool ready = false;                  ///< to make the next round; if not, `samples` may grow
  bool leaving = false;
  std::uint64_t samples = 0;
  std::uint32_t trial_term = 0;  ///< would promise this term if it were asked in earnest
  std::uint32_t beat = 0;        ///< the heartbeat that this answers
  std::string address;           ///< where the sender can be dialled

  /// Whether it says the same as another one.
  CAUSEWAY_DECL [[nodiscard]] bool repeats(const report& r) const;

  template <class Wire>
  void fields(Wire& wire, const base_record& base) {
    bool votes = accepted.has_value();
    wire(sequence, floor, wide{promised_to}, newest, votes);
    if (votes && !accepted) accepted.emplace();
    if (votes) wire(accepted->at, record_field{accepted->value, nullptr, partial, base});
    if (Wire::reads && partial) accepted.reset();
    wire(holds, ready, leaving, samples, trial_term, beat, net::text{address, max_address_bytes});
  }
};

/// Leader to everybody, at regular intervals.
struct heartbeat {
  std::uint32_t term = 0;
  std::uint32_t number = 0;
  position newest;
  std::uint32_t reachable = 0;  ///< members that the leader reaches
  bool quorum = false;          ///< whether they are enough
  bool enough = false;          ///< all peers together have the samples of the round after newest: enter it

  void fields(auto& wire) { wire(net::below{term, ballot::max_term + 1}, number, newest, reachable, quorum, enough); }
};

/// Candidate to members: promise me this term. A trial asks only whether they would.
struct campaign {
  std::uint32_t term = 0;
  bool trial = false;
  position newest;

  void fields(auto& wire) { wire(net::below{term, ballot::max_term + 1}, trial, newest); }
};

/// To somebody who asked the wrong peer: whom to ask.
struct guide {
  std::uint32_t term = 0;
  located_peer leader;  ///< peer 0: not known
  std::vector<located_peer> others;

  void fields(auto& wire) { wire(term, leader, net::list{others, max_members}); }
};

/// Leader to those who take part: begin. `proposal` is the record to come, state 0; it counts what the view says. Addresses
/// of the view are not on the wire: `news` has those that are new, `places` tells whether the receiver has all the others.
struct go {
  view who;
  commit_record proposal;
  std::vector<located_peer> news;
  std::uint64_t places = 0;  ///< places_of(who)
  bool partial = false;

  void fields(auto& wire, const base_record& base) { wire(packed{*this, base}); }

 private:
  struct packed {
    go& m;
    const base_record& base;

    CAUSEWAY_DECL void put(net::byte_writer& out) const;
    CAUSEWAY_DECL void get(net::byte_reader& in) const;
  };
};

/// Names the addresses of a view.
CAUSEWAY_DECL [[nodiscard]] std::uint64_t places_of(const view& who);

struct vote {
  ballot at;
  std::uint64_t round = 0;
  std::uint64_t state = 0;

  void fields(auto& wire) { wire(at, round, wide{state}); }
};

struct failure {
  ballot at;
  errc why = errc::peer_lost;
  std::vector<net::peer_id> suspects;

  void fields(auto& wire) { wire(at, why, wide_list(suspects, max_members)); }
};

/// Leader: from now on vote for nothing below `floor`, and report.
struct abort_attempt {
  ballot floor;

  void fields(auto& wire) { wire(floor); }
};

/// Leader: this value may have been chosen; take it over and vote for it in `at`.
struct adoption {
  ballot at;
  commit_record value;
  std::vector<located_peer> holders;
  bool partial = false;

  void fields(auto& wire, const base_record& base) {
    wire(at, record_field{value, nullptr, partial, base}, net::list{holders, max_members});
  }
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

  void fields(auto& wire, const base_record& base) {
    wire(of, brief);
    if (brief) {
      wire(brief_votes{*this, base});
    } else {
      wire(record_field{record, &votes, partial, base});
    }
    wire(net::list{holders, max_members});
  }

 private:
  struct brief_votes {
    commit_notice& notice;
    const base_record& base;

    CAUSEWAY_DECL void put(net::byte_writer& out) const;
    CAUSEWAY_DECL void get(net::byte_reader& in) const;
  };
};

/// The newest commit for somebody who misses more than one.
struct sync {
  commit_record record;
  certificate votes;
  ledger samples;
  std::vector<located_peer> holders;

  void fields(auto& wire) {
    bool missing = false;
    wire(record_field{record, &votes, missing, {}});
    wire.must(!missing);
    wire(ledger_field{samples, record.members}, net::list{holders, max_members});
  }
};

/// Who has the newest committed state, for somebody who fetches it.
struct holder_list {
  position of;
  std::vector<located_peer> holders;

  void fields(auto& wire) { wire(of, net::list{holders, max_members}); }
};

/// Leader to a peer that it leaves out for a while.
struct exclusion {
  std::string why;

  void fields(auto& wire) { wire(net::text{why, 1024}); }
};

/// Leader to a leaving peer: you may go (`you`). Anybody to its peers: I am gone.
struct farewell {
  bool you = false;

  void fields(auto& wire) { wire(you); }
};

/// To a member: do you know this commit, or have you voted for it?
struct inquiry {
  position about;

  void fields(auto& wire) { wire(about); }
};

/// The answer, also given later, once something is known.
struct confirmation {
  position newest;
  std::uint64_t before = 0;  ///< parent of newest
  std::uint64_t voted = 0;   ///< chain of the value voted for, for the round after newest; 0: none

  /// Whether it says that `chain` is committed, or that its sender voted for it.
  CAUSEWAY_DECL [[nodiscard]] bool supports(std::uint64_t chain) const noexcept;
  void fields(auto& wire) { wire(newest, wide{before}, wide{voted}); }
};

/// Where are these? None: all members.
struct address_request {
  std::vector<net::peer_id> who;

  void fields(auto& wire) { wire(wide_list(who, max_members)); }
};
/// The answer: those that are known.
struct address_list {
  std::vector<located_peer> places;

  void fields(auto& wire) { wire(net::list{places, max_members}); }
};

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
CAUSEWAY_DECL [[nodiscard]] std::size_t kind_of(std::span<const std::byte> bytes);

/// `base`: the newest commit that the sender knows.
CAUSEWAY_DECL [[nodiscard]] std::vector<std::byte> encode(std::uint64_t run, const message& m,
                                                          const base_record& base = {});

/// `base`: the newest commit that the receiver knows. errc::wrong_run, errc::version_mismatch, errc::corrupt or
/// errc::too_large for what is no message of this run.
CAUSEWAY_DECL [[nodiscard]] result<message> decode_message(std::uint64_t run, std::span<const std::byte> bytes,
                                                           const base_record& base = {});

}}}}  // namespace causeway::CAUSEWAY_ABI::membership::detail

#ifndef CAUSEWAY_COMPILED
#include <causeway/membership/impl/messages.ipp>
#endif

#endif  // CAUSEWAY_MEMBERSHIP_MESSAGES_HPP
