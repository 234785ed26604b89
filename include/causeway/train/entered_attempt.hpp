// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TRAIN_ENTERED_ATTEMPT_HPP
#define CAUSEWAY_TRAIN_ENTERED_ATTEMPT_HPP

// The attempt at a round that a member was let into: connects it to the others, says how long the exchange may take, and,
// when it failed, whose fault that was as far as this peer has seen it.

#include <causeway/core/clock.hpp>
#include <causeway/core/error.hpp>
#include <causeway/core/result.hpp>
#include <causeway/membership/records.hpp>
#include <causeway/membership/situation.hpp>
#include <causeway/net/deadline.hpp>
#include <causeway/net/fabric.hpp>
#include <causeway/net/link_transport.hpp>
#include <causeway/net/transport.hpp>
#include <causeway/train/member_control.hpp>
#include <causeway/train/run_group.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace detail {

// The peers of one attempt at a round as a Transport that remembers who kept it waiting: when the exchange fails, the
// membership asks it whom to suspect.

/// Ranks whose messages did not come or were not taken, oldest first.
struct suspicion {
  std::vector<net::peer_index> ranks;

  CAUSEWAY_DECL void add(net::peer_index rank);
};

/// Models Transport. Threading: as net::link_transport.
class view_transport {
 public:
  CAUSEWAY_DECL view_transport(net::link_transport links, std::shared_ptr<suspicion> suspects);

  [[nodiscard]] net::peer_index self() const noexcept { return links_.self(); }
  [[nodiscard]] std::uint32_t size() const noexcept { return links_.size(); }

  CAUSEWAY_DECL net::operation send(net::peer_index to, const net::message_id& id, std::span<const std::byte> bytes);
  CAUSEWAY_DECL net::operation receive(net::peer_index from, const net::message_id& id, std::span<std::byte> buffer);

  CAUSEWAY_DECL result<std::size_t> wait(net::operation op, time_point deadline);

  [[nodiscard]] bool done(net::operation op) const { return links_.done(op); }
  bool wait_any(std::span<const net::operation> ops, time_point deadline) { return links_.wait_any(ops, deadline); }
  [[nodiscard]] traffic stats() const { return links_.stats(); }

 private:
  CAUSEWAY_DECL net::operation remember(net::operation op, net::peer_index peer);

  // After the first failure a collective cancels what is left with a deadline in the past: that says nothing about anybody.
  CAUSEWAY_DECL void suspect(net::peer_index peer, errc code, time_point deadline);

  net::link_transport links_;
  std::shared_ptr<suspicion> suspects_;
  std::vector<std::pair<net::operation, net::peer_index>> open_;
};
static_assert(net::Transport<view_transport>);

/// One at a time, again and again. Threading: the trainer's thread.
class entered_attempt {
 public:
  CAUSEWAY_DECL entered_attempt(std::shared_ptr<net::fabric> fabric, member_control& control,
                                const net::arrival_options& exchange);

  [[nodiscard]] const std::optional<membership::ballot>& at() const noexcept { return at_; }
  [[nodiscard]] const membership::view& view() const noexcept { return view_; }

  CAUSEWAY_DECL void begin(membership::ballot at) noexcept;
  void end() noexcept { at_.reset(); }

  /// `bytes`: what is exchanged, at least. None if a member of the view is out of reach: that is reported, and the
  /// situation changes.
  CAUSEWAY_DECL result<std::optional<round_entry>> enter(const membership::situation& s, std::size_t bytes);

  /// To those of the view that was entered last, whatever becomes of it. Ends those that were given before.
  CAUSEWAY_DECL [[nodiscard]] net::any_transport lasting();
  /// To the same, until the attempt is over.
  CAUSEWAY_DECL [[nodiscard]] net::any_transport of_attempt();

  /// The exchange went through: what came in for it, in bytes. 0 where it says nothing of the lines, as alone.
  CAUSEWAY_DECL std::uint64_t exchanged();
  [[nodiscard]] time_point entered_at() const noexcept { return entered_at_; }

  /// Whether another attempt, with other peers, may cure what the exchange failed with.
  [[nodiscard]] bool may_try_again(const error& why) { return of_the_network(why.code) || of_a_contribution(why); }

  /// Tells the leader that this peer's part failed, and ends. What is said of it.
  CAUSEWAY_DECL std::string failed(const error& why);

  void forget_overdue() noexcept { overdue_.reset(); }
  /// The exchange failed for everybody: if it was waited for in vain, the deadline was too early.
  CAUSEWAY_DECL void nobody_was_quicker();

 private:
  CAUSEWAY_DECL [[nodiscard]] time_point now() const;

  CAUSEWAY_DECL static net::arrival_options without_cap(net::arrival_options o);

  CAUSEWAY_DECL net::any_transport to_all(std::uint32_t epoch);

  // Twice what it should take: more peers than the last time, or a line that others use as well, are no failure. The first
  // one is given a rate that hardly any line is below.
  CAUSEWAY_DECL [[nodiscard]] duration exchange_patience(std::size_t bytes) const;
  CAUSEWAY_DECL [[nodiscard]] duration connect_patience() const;

  // Connects to those of the view whom this peer has no connection to. False: somebody is out of reach, and reported.
  CAUSEWAY_DECL result<bool> connect(const membership::situation& s);

  /// Whose messages did not come or cannot be used, as far as this peer has seen that itself.
  CAUSEWAY_DECL [[nodiscard]] std::vector<net::peer_id> suspected(const error& why) const;

  CAUSEWAY_DECL static bool of_the_network(errc code);

  /// What some peer put into this exchange: the leader finds out who. Where this peer cannot say that it was another, it
  /// may be all of them, and then it does not end: so often and no more.
  CAUSEWAY_DECL [[nodiscard]] bool of_a_contribution(const error& why);

  static constexpr std::uint32_t times_refused = 16;  // exchanges of one round
  static constexpr double slow_line = 1.25e6;         // bytes per second

  std::shared_ptr<net::fabric> owned_;
  net::fabric& fabric_;
  member_control& control_;
  std::optional<membership::ballot> at_;  // entered, and neither voted nor failed yet
  membership::view view_;
  std::shared_ptr<suspicion> suspects_ = std::make_shared<suspicion>();
  net::any_transport transport_;
  time_point entered_at_;
  std::optional<duration> overdue_;  // how long the failed exchange was waited for
  std::uint64_t received_before_ = 0;
  std::uint64_t refused_round_ = 0;
  std::uint32_t refusals_ = 0;  // of what was exchanged in that round
  duration first_patience_;
  net::arrival_statistics exchange_times_,
      connect_times_{{.floor = std::chrono::seconds{2}, .cap = std::chrono::minutes{5}}};
};

}}}  // namespace causeway::CAUSEWAY_ABI::detail

#ifndef CAUSEWAY_COMPILED
#include <causeway/train/impl/entered_attempt.ipp>
#endif

#endif  // CAUSEWAY_TRAIN_ENTERED_ATTEMPT_HPP
