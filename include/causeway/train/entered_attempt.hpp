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
#include <causeway/train/elastic_group.hpp>
#include <causeway/train/member_control.hpp>
#include <causeway/train/view_transport.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace causeway::inline CAUSEWAY_ABI::detail {

/// One at a time, again and again. Threading: the trainer's thread.
class entered_attempt {
 public:
  entered_attempt(std::shared_ptr<net::fabric> fabric, member_control& control, const net::arrival_options& exchange)
      : owned_{std::move(fabric)},
        fabric_{*owned_},
        control_{control},
        first_patience_{exchange.cap},
        exchange_times_{without_cap(exchange)} {}

  [[nodiscard]] const std::optional<membership::ballot>& at() const noexcept { return at_; }
  [[nodiscard]] const membership::view& view() const noexcept { return view_; }

  void begin(membership::ballot at) noexcept { at_ = at; }
  void end() noexcept { at_.reset(); }

  /// `bytes`: what is exchanged, at least. None if a member of the view is out of reach: that is reported, and the
  /// situation changes.
  result<std::optional<round_entry>> enter(const membership::situation& s, std::size_t bytes) {
    view_ = s.current;
    at_ = view_.at;
    entered_at_ = now();
    suspects_ = std::make_shared<suspicion>();
    CAUSEWAY_ASSIGN(const bool connected, connect(s));
    if (!connected) {
      end();
      return std::optional<round_entry>{};
    }
    const net::peer_index rank = *view_.rank_of(fabric_.id());
    round_entry e;
    e.round = view_.round;
    e.parent = view_.parent;
    e.attempt = view_.at.wire();
    e.deadline = entered_at_ + exchange_patience(bytes);
    e.empty = view_.total() == 0;
    e.share = e.empty ? 0.0 : static_cast<double>(view_.members[rank].samples) / static_cast<double>(view_.total());
    std::vector<net::peer_index> links;
    fabric_.locked([&] { links = e.empty ? std::vector<net::peer_index>{0} : control_.links_of(view_); });
    transport_ = net::any_transport{
        view_transport{net::link_transport{owned_, std::move(links), e.empty ? 0 : rank, view_.at.wire()}, suspects_}};
    e.transport = &transport_;
    fabric_.locked([&] { control_.exchanging(!e.empty && view_.members.size() > 1); });  // alone the line is free
    received_before_ = fabric_.stats().bytes_received;
    return std::optional{e};
  }

  /// The exchange went through: what came in for it, in bytes. 0 where it says nothing of the lines, as alone.
  std::uint64_t exchanged() {
    overdue_.reset();
    if (view_.members.size() < 2) return 0;
    exchange_times_.observe(now() - entered_at_);
    return fabric_.stats().bytes_received - received_before_;
  }
  [[nodiscard]] time_point entered_at() const noexcept { return entered_at_; }

  /// Whether another attempt, with other peers, may cure what the exchange failed with.
  [[nodiscard]] bool may_try_again(const error& why) { return of_the_network(why.code) || of_a_contribution(why); }

  /// Tells the leader that this peer's part failed, and ends. What is said of it.
  std::string failed(const error& why) {
    const std::vector<net::peer_id> suspects = suspected(why);
    if (why.code == errc::timeout) overdue_ = now() - entered_at_;
    fabric_.locked([&] { control_.failed(*at_, why.code, suspects); });
    end();
    std::string of = suspects.empty() ? "" : ", because of";
    for (const net::peer_id id : suspects) of += " peer " + std::to_string(id);
    return "the exchange failed" + of + " (" + why.text() + "); it will be run again with those who are left";
  }

  void forget_overdue() noexcept { overdue_.reset(); }
  /// The exchange failed for everybody: if it was waited for in vain, the deadline was too early.
  void nobody_was_quicker() {
    if (overdue_) exchange_times_.overdue(*overdue_);
    overdue_.reset();
  }

 private:
  [[nodiscard]] time_point now() const {
    time_point t;
    fabric_.locked([&] { t = fabric_.now(); });
    return t;
  }

  static net::arrival_options without_cap(net::arrival_options o) {
    o.cap = std::chrono::hours{24};
    return o;
  }

  // Twice what it should take: more peers than the last time, or a line that others use as well, are no failure. The first
  // one is given a rate that hardly any line is below.
  [[nodiscard]] duration exchange_patience(std::size_t bytes) const {
    if (exchange_times_.count() > 0) return 2 * exchange_times_.patience();
    const std::chrono::duration<double> slowest{2.0 * static_cast<double>(bytes) / slow_line};
    return first_patience_ + std::chrono::duration_cast<duration>(slowest);
  }
  [[nodiscard]] duration connect_patience() const {
    return connect_times_.count() > 0 ? connect_times_.patience() : std::chrono::seconds{10};
  }

  // Connects to those of the view whom this peer has no connection to. False: somebody is out of reach, and reported.
  result<bool> connect(const membership::situation& s) {
    if (s.current.total() == 0) return true;  // nothing will be exchanged
    std::vector<net::peer_id> missing;
    fabric_.locked([&] {
      control_.dial_missing(s.current);
      missing = control_.missing_of(s.current);
    });
    if (missing.empty()) return true;
    const time_point begin = now();
    const auto over = [&] {  // asked after every event: looks at everybody only when the last of them has come
      while (!missing.empty() && control_.meets(missing.back())) missing.pop_back();
      if (missing.empty()) missing = control_.missing_of(s.current);
      return missing.empty() || control_.dialled_in_vain() || control_.now_what().current.at != s.current.at;
    };
    CAUSEWAY_ASSIGN(const bool in_time, fabric_.block(over, begin + connect_patience()));
    if (missing.empty()) {
      connect_times_.observe(now() - begin);
      return true;
    }
    if (!in_time) connect_times_.overdue(now() - begin);
    fabric_.locked([&] {  // who was not met before somebody else ended the attempt did nothing wrong
      if (control_.now_what().current.at != s.current.at) return;
      control_.failed(s.current.at, errc::unreachable, control_.missing_of(s.current));
    });
    return false;
  }

  /// Whose messages did not come or cannot be used, as far as this peer has seen that itself.
  [[nodiscard]] std::vector<net::peer_id> suspected(const error& why) const {
    std::vector<net::peer_id> suspects;
    if (why.culprit < view_.members.size()) suspects.push_back(view_.members[why.culprit].peer);
    for (const net::peer_index rank : suspects_->ranks) {
      const net::peer_id id = view_.members[rank].peer;
      if (!membership::contains(suspects, id)) suspects.push_back(id);
    }
    return suspects;
  }

  static bool of_the_network(errc code) {
    return code == errc::peer_lost || code == errc::timeout || code == errc::cancelled || code == errc::wrong_parent ||
           code == errc::protocol || code == errc::too_large || code == errc::corrupt;
  }

  /// What some peer put into this exchange: the leader finds out who. Where this peer cannot say that it was another, it
  /// may be all of them, and then it does not end: so often and no more.
  [[nodiscard]] bool of_a_contribution(const error& why) {
    if (!at_ || (why.code != errc::non_finite && why.code != errc::invalid_argument)) return false;
    if (!suspected(why).empty()) return true;
    if (std::exchange(refused_round_, view_.round) != view_.round) refusals_ = 0;
    return ++refusals_ <= times_refused;
  }

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

}  // namespace causeway::inline CAUSEWAY_ABI::detail

#endif  // CAUSEWAY_TRAIN_ENTERED_ATTEMPT_HPP
