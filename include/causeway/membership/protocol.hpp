// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_MEMBERSHIP_PROTOCOL_HPP
#define CAUSEWAY_MEMBERSHIP_PROTOCOL_HPP

// One peer's part in the membership of a run: a pure state machine. Events go in, effects come out; it has no threads, no
// clock and does no I/O, so that it runs unchanged over TCP and in a simulator. docs/design/membership.md has the protocol
// and the reasons why no round is ever committed twice.

#include <causeway/core/error.hpp>
#include <causeway/membership/candidate.hpp>
#include <causeway/membership/finder.hpp>
#include <causeway/membership/follower.hpp>
#include <causeway/membership/leader.hpp>
#include <causeway/membership/outlook.hpp>
#include <causeway/membership/peer_table.hpp>
#include <causeway/membership/situation.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace membership {

/// Thread safety: none; the fabric's lock serves. Cost of a call: O(n log n) at most; memory O(n).
class protocol {
 public:
  /// `record`: what the last process persisted, or fresh_record. `fx` must outlive this object.
  CAUSEWAY_DECL protocol(options o, durable_record record, effects& fx);
  protocol(const protocol&) = delete;
  protocol& operator=(const protocol&) = delete;

  // ---- from the network --------------------------------------------------------------------------------------------

  /// The first peer of a new run: commits round 0 with itself as the only member. It holds that state.
  CAUSEWAY_DECL void found(std::uint64_t state_hash, time_point now);

  /// Looks for the run at these addresses and at those it remembers, until it finds it. Also after a restart.
  CAUSEWAY_DECL void join(const std::vector<std::string>& addresses, time_point now);

  CAUSEWAY_DECL void peer_up(net::peer_id peer, const std::string& address, time_point now);

  CAUSEWAY_DECL void peer_down(net::peer_id peer, const std::string& why, time_point now);

  CAUSEWAY_DECL void unreachable(const std::string& address, const std::string& why, time_point now);

  CAUSEWAY_DECL void message(net::peer_id from, std::span<const std::byte> bytes, time_point now);

  /// Something that came over the same connection is no message of anybody's: its sender is sent away.
  CAUSEWAY_DECL void malformed(net::peer_id from, const std::string& why, time_point now);

  /// `from` fetches the state, and asks the leader to hold the next round back for it.
  CAUSEWAY_DECL void asks_for_time(net::peer_id from, const transfer_need& needs, time_point now);

  CAUSEWAY_DECL void wake(time_point now);

  /// Lets another one lead, for as long as one does. For a leader that is there, but cannot write what it decides.
  CAUSEWAY_DECL void resign(time_point now);

  /// A record that `persist` took cannot be made durable after all. What was sent since must not have left this peer.
  CAUSEWAY_DECL void disk_failed(time_point now);

  // ---- from the trainer ----------------------------------------------------------------------------------------------

  /// This peer has the full state of a committed round: after a transfer or a restart.
  CAUSEWAY_DECL void holds(std::uint64_t round, std::uint64_t state_hash, time_point now);
  /// This peer can take part in `round`, on top of `parent`, with so many samples. Holds until the round is committed.
  CAUSEWAY_DECL void ready(std::uint64_t round, std::uint64_t parent, std::uint64_t samples, time_point now);
  /// See options::round_samples.
  void gather(std::uint64_t round_samples) noexcept { t_.settings.round_samples = round_samples; }
  /// The trainer has so many samples for that round, and goes on; situation::enough says when to be ready.
  CAUSEWAY_DECL void announce(std::uint64_t round, std::uint64_t parent, std::uint64_t samples, time_point now);
  /// The exchange of `current` went through, and the trainer is about to make its result durable: what would end the
  /// attempt waits for voted() or failed(), so that nobody's samples are used up for nothing. False: it is over already.
  CAUSEWAY_DECL bool completed(ballot at, time_point now);
  /// The candidate state of `current` (exchange or adopt) is durable and has this hash. Ignored if the attempt is over.
  CAUSEWAY_DECL void voted(ballot at, std::uint64_t round, std::uint64_t state_hash, time_point now);
  /// The exchange (or the fetch of an adopt) failed; `suspects` are the peers whose messages did not come or could not be
  /// used, as far as this peer saw that; it may be one of them. None: it does not know whose fault it was.
  CAUSEWAY_DECL void failed(ballot at, errc why, const std::vector<net::peer_id>& suspects, time_point now);
  /// What this peer was to contribute is not finite, and it gives it up. `at`: the attempt that it was let into, if any.
  CAUSEWAY_DECL void unusable(ballot at, time_point now);
  /// Takes part until a commit has made the others independent of this peer: situation::left. Go on to answer with ready
  /// (of 0 samples, once its work is committed) and voted until then.
  CAUSEWAY_DECL void leave(time_point now);

  // ---- to look at ------------------------------------------------------------------------------------------------------

  [[nodiscard]] const situation& now_what() const noexcept { return outlook_.now_what(); }
  /// After the newest commit known.
  [[nodiscard]] const ledger& samples() const noexcept { return t_.votes.durable().samples; }
  [[nodiscard]] const durable_record& durable() const noexcept { return t_.votes.durable(); }
  [[nodiscard]] net::peer_id self() const noexcept { return t_.self; }
  /// What the commit of `round` with this state would leave to be remembered, or has left: see round_store::save. Empty: it
  /// is neither the newest commit nor what this peer is about to vote for.
  CAUSEWAY_DECL [[nodiscard]] std::vector<std::byte> record_of(std::uint64_t round, std::uint64_t state) const;
  /// How long no other member of the newest commit known has been within reach. 0 for who leads or follows.
  [[nodiscard]] duration alone_for(time_point now) const { return finder_.alone_for(now); }
  /// 0: none known.
  [[nodiscard]] net::peer_id leader() const noexcept { return follower_.leader(); }
  [[nodiscard]] std::uint64_t rejected(reject_reason why) const noexcept { return t_.rejected(why); }
  /// chain() of the newest commit known, 0 where none is.
  [[nodiscard]] std::uint64_t newest_chain() const noexcept { return t_.votes.newest().chain; }

  /// A few lines for people: where it stands, who leads, who is waited for, what was refused.
  [[nodiscard]] std::string describe(time_point now) const { return outlook_.describe(now); }

 private:
  CAUSEWAY_DECL static detail::peer_entry fresh_connection(const detail::peer_entry& old);

  [[nodiscard]] bool stopped() const { return !t_.votes.broken().empty() || follower_.has_left(); }

  /// Every event begins here. A process that was stopped for a while must not take its own absence for that of others.
  CAUSEWAY_DECL void begin(time_point now);

  CAUSEWAY_DECL void start(const std::vector<std::string>& addresses);

  CAUSEWAY_DECL void down(net::peer_id peer);

  CAUSEWAY_DECL void turn_away(net::peer_id peer, reject_reason reason, const std::string& why);

  CAUSEWAY_DECL void dispatch(net::peer_id from, const detail::message& m);

  /// What came while a vote was on its way, in its order.
  CAUSEWAY_DECL void take_deferred();

  template <class Message>
  void take(net::peer_id from, const Message& m) {
    if constexpr (std::is_same_v<Message, detail::report>) {
      take_report(from, m);
    } else if constexpr (std::is_same_v<Message, detail::guide>) {
      finder_.on(from, m);
    } else if constexpr (std::is_same_v<Message, detail::vote> || std::is_same_v<Message, detail::failure>) {
      leader_.touch();
      leader_.on(from, m);
    } else if constexpr (std::is_same_v<Message, detail::commit_notice>) {
      take_notice(from, m);
    } else if constexpr (std::is_same_v<Message, detail::sync>) {
      evidence_.told(from, m.record, m.votes, &m.samples, m.holders);
    } else if constexpr (std::is_same_v<Message, detail::inquiry>) {
      evidence_.reply(from, m);
    } else if constexpr (std::is_same_v<Message, detail::confirmation>) {
      evidence_.heard(from, m);
    } else if constexpr (std::is_same_v<Message, detail::address_request>) {
      t_.post(from, detail::address_list{t_.places_of(m.who.empty() ? leader_.last_view() : m.who)});
    } else {
      if constexpr (std::is_same_v<Message, detail::heartbeat>) evidence_.heard(from, m.newest);
      follower_.on(from, m);
    }
  }

  CAUSEWAY_DECL void take_notice(net::peer_id from, const detail::commit_notice& m);

  CAUSEWAY_DECL void take_report(net::peer_id from, const detail::report& m);

  CAUSEWAY_DECL void learned();

  /// Every event ends here: lets time pass, lets everybody decide, delivers what we said to ourselves, tells the trainer.
  CAUSEWAY_DECL void finish();

  CAUSEWAY_DECL void after_event();

  CAUSEWAY_DECL void elect();

  /// A peer that stops says so, so that nobody waits for its silence.
  CAUSEWAY_DECL void say_goodbye();

  CAUSEWAY_DECL [[nodiscard]] time_point next_wake() const;

  /// Nothing is urgent enough to be asked for again at once.
  static constexpr duration shortest_wait = std::chrono::milliseconds{1};

  detail::peer_table t_;
  static constexpr std::size_t most_deferred = 64;  // the rest is said again

  detail::follower follower_;
  detail::evidence evidence_;
  std::vector<std::pair<net::peer_id, detail::message>> deferred_;
  detail::candidate candidate_;
  detail::finder finder_;
  detail::leader leader_;
  detail::outlook outlook_;
  time_point asked_wake_ = no_deadline;
  bool started_ = false;
};

}}}  // namespace causeway::CAUSEWAY_ABI::membership

#ifndef CAUSEWAY_COMPILED
#include <causeway/membership/impl/protocol.ipp>
#endif

#endif  // CAUSEWAY_MEMBERSHIP_PROTOCOL_HPP
