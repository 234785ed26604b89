// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TRAIN_IMPL_ENTERED_ATTEMPT_IPP
#define CAUSEWAY_TRAIN_IMPL_ENTERED_ATTEMPT_IPP

#include <causeway/train/entered_attempt.hpp>

#include <causeway/net/epochs.hpp>

#include <algorithm>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace detail {

CAUSEWAY_DECL void suspicion::add(net::peer_index rank) {
  if (std::find(ranks.begin(), ranks.end(), rank) == ranks.end()) ranks.push_back(rank);
}

CAUSEWAY_DECL view_transport::view_transport(net::link_transport links, std::shared_ptr<suspicion> suspects)
    : links_{std::move(links)}, suspects_{std::move(suspects)} {}

CAUSEWAY_DECL net::operation view_transport::send(net::peer_index to, const net::message_id& id,
                                                  std::span<const std::byte> bytes) {
  return remember(links_.send(to, id, bytes), to);
}

CAUSEWAY_DECL net::operation view_transport::receive(net::peer_index from, const net::message_id& id,
                                                     std::span<std::byte> buffer) {
  return remember(links_.receive(from, id, buffer), from);
}

CAUSEWAY_DECL result<std::size_t> view_transport::wait(net::operation op, time_point deadline) {
  const auto found = std::find_if(open_.begin(), open_.end(), [&](const auto& o) { return o.first == op; });
  const net::peer_index peer = found == open_.end() ? self() : found->second;
  if (found != open_.end()) {
    *found = open_.back();
    open_.pop_back();
  }
  auto outcome = links_.wait(op, deadline);
  if (!outcome && peer != self()) suspect(peer, outcome.error().code, deadline);
  return outcome;
}

CAUSEWAY_DECL net::operation view_transport::remember(net::operation op, net::peer_index peer) {
  open_.emplace_back(op, peer);
  return op;
}

CAUSEWAY_DECL void view_transport::suspect(net::peer_index peer, errc code, time_point deadline) {
  const bool overdue = code == errc::timeout && deadline != time_point{};
  const bool wrong = code == errc::protocol || code == errc::wrong_parent || code == errc::too_large;
  if (code == errc::peer_lost || overdue || wrong) suspects_->add(peer);
}

CAUSEWAY_DECL entered_attempt::entered_attempt(std::shared_ptr<net::fabric> fabric, member_control& control,
                                               const net::arrival_options& exchange)
    : owned_{std::move(fabric)},
      fabric_{*owned_},
      control_{control},
      first_patience_{exchange.cap},
      exchange_times_{without_cap(exchange)} {}

CAUSEWAY_DECL void entered_attempt::begin(membership::ballot at) noexcept { at_ = at; }

CAUSEWAY_DECL result<std::optional<round_entry>> entered_attempt::enter(const membership::situation& s, std::size_t bytes) {
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
  const auto total = static_cast<double>(std::max<std::uint64_t>(view_.total(), 1));
  for (const auto& m : view_.members) {
    e.shares.push_back(static_cast<double>(m.samples) / total);
    e.identities.push_back(m.peer);
  }
  e.share = e.shares[rank];
  std::vector<net::peer_index> links;
  fabric_.locked([&] {
    links = e.empty ? std::vector<net::peer_index>{0} : control_.links_of(view_);
    e.last = control_.ledger().completed_by(view_.total());
    e.quota = control_.ledger().quota();
  });
  transport_ = net::any_transport{
      view_transport{net::link_transport{owned_, std::move(links), e.empty ? 0 : rank, view_.at.wire()}, suspects_}};
  e.transport = &transport_;
  fabric_.locked([&] { control_.exchanging(!e.empty && view_.members.size() > 1); });  // alone the line is free
  received_before_ = fabric_.stats().bytes_received;
  return std::optional{e};
}

CAUSEWAY_DECL net::any_transport entered_attempt::lasting() {
  const std::uint32_t epoch = net::lasting_epoch(view_.at.wire());
  fabric_.locked([&] { fabric_.cancel_before(epoch); });
  return to_all(epoch);
}

CAUSEWAY_DECL net::any_transport entered_attempt::of_attempt() { return to_all(view_.at.wire()); }

CAUSEWAY_DECL net::any_transport entered_attempt::to_all(std::uint32_t epoch) {
  std::vector<net::peer_index> links;
  fabric_.locked([&] { links = control_.links_of(view_); });
  return net::any_transport{net::link_transport{owned_, std::move(links), *view_.rank_of(fabric_.id()), epoch}};
}

CAUSEWAY_DECL std::uint64_t entered_attempt::exchanged() {
  overdue_.reset();
  if (view_.members.size() < 2 || view_.total() == 0) return 0;
  exchange_times_.observe(now() - entered_at_);
  return fabric_.stats().bytes_received - received_before_;
}

CAUSEWAY_DECL std::string entered_attempt::failed(const error& why) {
  const std::vector<net::peer_id> suspects = suspected(why);
  if (why.code == errc::timeout) overdue_ = now() - entered_at_;
  fabric_.locked([&] { control_.failed(*at_, why.code, suspects); });
  end();
  std::string of = suspects.empty() ? "" : ", because of";
  for (const net::peer_id id : suspects) of += " peer " + std::to_string(id);
  return "the exchange failed" + of + " (" + why.text() + "); it will be run again with those who are left";
}

CAUSEWAY_DECL void entered_attempt::nobody_was_quicker() {
  if (overdue_) exchange_times_.overdue(*overdue_);
  overdue_.reset();
}

CAUSEWAY_DECL time_point entered_attempt::now() const {
  time_point t;
  fabric_.locked([&] { t = fabric_.now(); });
  return t;
}

CAUSEWAY_DECL net::arrival_options entered_attempt::without_cap(net::arrival_options o) {
  o.cap = std::chrono::hours{24};
  return o;
}

CAUSEWAY_DECL duration entered_attempt::exchange_patience(std::size_t bytes) const {
  if (exchange_times_.count() > 0) return 2 * exchange_times_.patience();
  const std::chrono::duration<double> slowest{2.0 * static_cast<double>(bytes) / slow_line};
  return first_patience_ + std::chrono::duration_cast<duration>(slowest);
}

CAUSEWAY_DECL duration entered_attempt::connect_patience() const {
  return connect_times_.count() > 0 ? connect_times_.patience() : std::chrono::seconds{10};
}

CAUSEWAY_DECL result<bool> entered_attempt::connect(const membership::situation& s) {
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

CAUSEWAY_DECL std::vector<net::peer_id> entered_attempt::suspected(const error& why) const {
  std::vector<net::peer_id> suspects;
  if (why.culprit < view_.members.size()) suspects.push_back(view_.members[why.culprit].peer);
  for (const net::peer_index rank : suspects_->ranks) {
    const net::peer_id id = view_.members[rank].peer;
    if (!membership::contains(suspects, id)) suspects.push_back(id);
  }
  return suspects;
}

CAUSEWAY_DECL bool entered_attempt::of_the_network(errc code) {
  return code == errc::peer_lost || code == errc::timeout || code == errc::cancelled || code == errc::wrong_parent ||
         code == errc::protocol || code == errc::too_large || code == errc::corrupt;
}

CAUSEWAY_DECL bool entered_attempt::of_a_contribution(const error& why) {
  if (!at_ || (why.code != errc::non_finite && why.code != errc::invalid_argument)) return false;
  if (!suspected(why).empty()) return true;
  if (std::exchange(refused_round_, view_.round) != view_.round) refusals_ = 0;
  return ++refusals_ <= times_refused;
}

}}}  // namespace causeway::CAUSEWAY_ABI::detail

#endif  // CAUSEWAY_TRAIN_IMPL_ENTERED_ATTEMPT_IPP
