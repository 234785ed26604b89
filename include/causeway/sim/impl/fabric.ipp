// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_SIM_IMPL_FABRIC_IPP
#define CAUSEWAY_SIM_IMPL_FABRIC_IPP

#include <causeway/sim/fabric.hpp>

#include <algorithm>
#include <chrono>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace sim {

CAUSEWAY_LAZY basic_fabric<Whole>::basic_fabric(process& owner, net::peer_id id, std::uint32_t first_port)
    : process_{&owner},
      core_{owner.shared()},
      clock_{core_.net.at(owner.host()).clock},
      host_{owner.host()},
      id_{id},
      address_{take_port(first_port)},
      dialer_{core_.net, host_, id_, address_, *this, *this} {
  owner.add(this);
}

CAUSEWAY_LAZY std::string basic_fabric<Whole>::address() const { return address_; }

CAUSEWAY_LAZY void basic_fabric<Whole>::rename(net::peer_index link, std::string name) {
  mailbox_.rename(link, std::move(name));
}

CAUSEWAY_LAZY basic_fabric<Whole>::~basic_fabric() {
  if (process_ == nullptr) return;
  process_->remove(this);
  process_ended(false);
}

CAUSEWAY_LAZY void basic_fabric<Whole>::attach(net::fabric_events* events) {
  if (process_ == nullptr) return;
  events_ = events;
  if (events_ == nullptr) return dialer_.close_doors();
  later([this] {
    if (events_ != nullptr) dialer_.open_doors();
  });
}

CAUSEWAY_LAZY void basic_fabric<Whole>::dial(const std::string& address) {
  if (process_ == nullptr) return;
  if (address == address_) return cannot_dial(address, "this is our own address");
  const detail::network_address to = detail::parse_address(core_.net, address);
  if (to.host == no_host) return cannot_dial(address, "no such host; an address is <host>:<number>");
  const auto known = by_address_.find(address);
  const bool stands = known != by_address_.end() && links_[known->second].up && links_[known->second].address == address;
  if (!stands) dialer_.dial(address, to);
}

CAUSEWAY_LAZY void basic_fabric<Whole>::close(net::peer_index link, const std::string& why) {
  if (!is_up(link)) return;
  links_[link].closing = true;
  later([this, link, end = links_[link].end, why] {
    if (links_[link].up && links_[link].end == end) take_down(link, why);
  });
}

CAUSEWAY_LAZY bool basic_fabric<Whole>::is_up(net::peer_index link) const {
  return link < links_.size() && links_[link].up && !links_[link].closing;
}

CAUSEWAY_LAZY void basic_fabric<Whole>::post(net::peer_index link, std::vector<std::byte> message, bool bulk) {
  CAUSEWAY_EXPECT(message.size() <= net::max_post_bytes);
  if (!is_up(link)) return;
  if (core_.options.repeat_after_reconnect > 0) remember(links_[link], message);
  const time_point held = core_.net.at(host_).disk_until;
  if (held <= core_.events.now()) return post_now(links_[link], std::move(message), bulk);
  // A handler that waits for the disk: what it says next is said when the disk is done.
  core_.events.at(held, {event_kind::notify, host_, message.size()},
                  [this, here = std::weak_ptr<char>{here_}, link, bulk, m = std::move(message)] {
                    if (!here.expired() && links_[link].up) post_now(links_[link], m, bulk);
                  });
}

CAUSEWAY_LAZY void basic_fabric<Whole>::wake_at(time_point when) {
  if (process_ == nullptr) return;
  core_.events.cancel(std::exchange(wake_, 0));
  if (when == no_deadline) return;
  wake_when_ = when;
  wake_ = core_.events.at(clock_.world(when), {event_kind::timer, host_, 0}, [this] {
    wake_ = 0;
    core_.net.wires().dispatch(host_, [this] {
      if (events_ != nullptr) events_->on_wake();
      after_event();
    });
  });
}

CAUSEWAY_LAZY void basic_fabric<Whole>::cancel_before(std::uint32_t epoch) {
  mailbox_.cancel_before(epoch, [this](detail::slot_index slot) { stop_send(slot); });
  look_at_room();
  look_at_waiting();
}

CAUSEWAY_LAZY void basic_fabric<Whole>::aside(std::function<void()> work, std::function<void()> then) {
  if (process_ == nullptr) return;
  detail::machine& m = core_.net.at(host_);
  duration took{0};
  duration* const outer = std::exchange(m.aside, &took);
  work();
  m.aside = outer;
  aside_until_ = std::max(aside_until_, core_.events.now()) + took;
  core_.events.at(aside_until_, {event_kind::notify, host_, id_},
                  [this, here = std::weak_ptr<char>{here_}, f = std::move(then)] {
                    if (here.expired()) return;
                    core_.net.wires().dispatch(host_, [this, f] {
                      if (events_ != nullptr) f();
                      after_event();
                    });
                  });
}

CAUSEWAY_LAZY net::operation basic_fabric<Whole>::send(net::peer_index link, const net::message_id& id,
                                                       std::span<const std::byte> bytes) {
  const detail::slot_index slot = mailbox_.start_send(link, id, bytes.size(), now(), is_up(link));
  if (!mailbox_.done(slot)) {
    detail::sent_message_ptr message = core_.net.wires().pool().make(detail::content::data, detail::lane::data);
    message->id = id;
    message->operation = slot;
    message->bytes.assign(bytes.begin(), bytes.end());
    core_.net.send(links_[link].end, std::move(message));
  }
  return mailbox_.handle(slot);
}

CAUSEWAY_LAZY net::operation basic_fabric<Whole>::receive(net::peer_index link, const net::message_id& id,
                                                          std::span<std::byte> buffer) {
  const detail::slot_index slot = mailbox_.start_receive(link, id, buffer, now(), is_up(link));
  look_at_room();
  return mailbox_.handle(slot);
}

CAUSEWAY_LAZY result<std::size_t> basic_fabric<Whole>::wait(net::operation op, time_point deadline) {
  const detail::slot_index slot = mailbox_.find(op);
  if (slot == net::detail::no_slot) {
    return fail(errc::invalid_argument, "fabric", "waited for an operation that is not under way");
  }
  while (!mailbox_.done(slot)) {
    if (now() >= deadline)
      return give_up(slot, errc::timeout, "no answer before the deadline; raise it or look at that peer");
    waiting_ = slot;
    const wake_reason why = process_->park(deadline);
    waiting_ = net::detail::no_slot;
    if (why == wake_reason::dying) return give_up(slot, errc::cancelled, "this process is being ended");
  }
  return mailbox_.release(slot);
}

CAUSEWAY_LAZY void basic_fabric<Whole>::locked(const std::function<void()>& what) {
  detail::machine& m = core_.net.at(host_);
  {
    const lock_count held{m.locks};
    what();
  }
  if (process_ == nullptr || m.locks != 0 || (m.frozen & detail::standstill::disk_held) == 0) return;
  core_.events.after(duration{0}, {event_kind::notify, host_, id_},
                     [net = &core_.net, host = host_] { net->wires().thaw(host, detail::standstill::disk_held); });
}

CAUSEWAY_LAZY result<bool> basic_fabric<Whole>::block(const std::function<bool()>& done, time_point deadline) {
  for (;;) {
    if (process_ == nullptr || process_->asked_to_stop()) {
      return fail(errc::cancelled, "fabric", "this peer was asked to stop");
    }
    if (done()) return true;
    if (now() >= deadline) return false;
    done_ = &done;
    const wake_reason why = process_->park(deadline);
    done_ = nullptr;
    if (std::exchange(satisfied_, false)) return true;
    if (why == wake_reason::dying) return fail(errc::cancelled, "fabric", "this process is being ended");
  }
}

CAUSEWAY_LAZY void basic_fabric<Whole>::clock_changed() {
  if (wake_ != 0) wake_at(wake_when_);
}

CAUSEWAY_LAZY void basic_fabric<Whole>::process_ended(bool killed) {
  core_.events.cancel(std::exchange(wake_, 0));
  here_.reset();
  dialer_.stop();
  core_.net.drop(this, host_, killed ? "its process was killed" : "its process has ended", !killed);
  for (peer& p : links_) p.up = false;
  events_ = nullptr;
  done_ = nullptr;
  waiting_ = net::detail::no_slot;
  mailbox_.fail_everything(fail(errc::peer_lost, "fabric", "this peer's process has ended"));
  process_ = nullptr;
}

CAUSEWAY_LAZY std::string basic_fabric<Whole>::take_port(std::uint32_t port) {
  while (core_.net.at(host_).listeners.contains(port)) ++port;
  core_.net.listen(host_, port, this);
  return detail::address_text(core_.net, host_, port);
}

CAUSEWAY_LAZY void basic_fabric<Whole>::on_message(detail::end_ref end, detail::sent_message_ptr message) {
  if (dialer_.heard(end, *message)) return;
  const auto link = by_end_.find(end.value);
  if (link == by_end_.end() || links_[link->second].closing) return;
  if (message->what == detail::content::data) {
    mailbox_.arrived(link->second, std::move(message));
    look_at_room();
    look_at_waiting();
  } else {
    counters_.bytes_received += message->wire_bytes;
    ++counters_.frames_received;
    hear(link->second, end, message->bytes);
  }
  after_event();
}

CAUSEWAY_LAZY void basic_fabric<Whole>::on_closed(detail::end_ref end, const error& why) {
  if (dialer_.closed(end, why)) return;
  if (const auto link = by_end_.find(end.value); link != by_end_.end()) take_down(link->second, why.message);
  after_event();
}

CAUSEWAY_LAZY void basic_fabric<Whole>::on_sent(detail::end_ref, std::uint32_t operation) {
  if (mailbox_.sent(operation, core_.options.header_bytes)) look_at_waiting();
}

CAUSEWAY_LAZY bool basic_fabric<Whole>::connected_to(net::peer_id id) {
  const net::peer_index link = find_link(id);
  return link < links_.size() && links_[link].up && core_.net.far_end_open(links_[link].end);
}

CAUSEWAY_LAZY void basic_fabric<Whole>::met(detail::end_ref end, net::peer_id id, const std::string& address) {
  const net::peer_index link = find_link(id);
  if (link == links_.size()) {
    links_.emplace_back().id = id;
    by_id_[id] = link;
    mailbox_.add_link(net::detail::peer_name(link));
  }
  if (links_[link].up) take_down(link, "it has connected anew");
  peer& p = links_[link];
  p.address = address;
  by_address_[address] = link;
  p.end = end;
  p.up = true;
  p.closing = p.paused = false;
  by_end_[end.value] = link;
  repeat(p);
  if (events_ != nullptr) events_->on_up(link, id, address);
  after_event();
}

CAUSEWAY_LAZY void basic_fabric<Whole>::not_met(const std::string& address, const error& why) {
  if (events_ != nullptr) events_->on_unreachable(address, why);
  after_event();
}

CAUSEWAY_LAZY net::peer_index basic_fabric<Whole>::find_link(net::peer_id id) const {
  const auto known = by_id_.find(id);
  return known == by_id_.end() ? static_cast<net::peer_index>(links_.size()) : known->second;
}

CAUSEWAY_LAZY void basic_fabric<Whole>::take_down(net::peer_index link, const std::string& reason) {
  peer& p = links_[link];
  const error why = fail(errc::peer_lost, mailbox_.name(link), reason);
  by_end_.erase(p.end.value);
  p.up = false;
  core_.net.close(p.end, reason, false);
  mailbox_.fail_link(link, why);
  look_at_waiting();
  if (events_ != nullptr) events_->on_down(link, why);
}

CAUSEWAY_LAZY void basic_fabric<Whole>::cannot_dial(const std::string& address, const char* why) {
  later([this, address, why] {
    if (events_ != nullptr) events_->on_unreachable(address, fail(errc::unreachable, address, why));
  });
}

CAUSEWAY_LAZY void basic_fabric<Whole>::hear(net::peer_index link, detail::end_ref end, std::vector<std::byte>& message) {
  if (core_.net.befalls(mishap::repeat, end)) hear_later(link, end, std::chrono::seconds{5}, message);
  if (core_.net.befalls(mishap::reorder, end)) {
    return hear_later(link, end, std::chrono::milliseconds{200}, std::move(message));
  }
  if (events_ != nullptr) events_->on_control(link, message);
}

CAUSEWAY_LAZY void basic_fabric<Whole>::hear_later(net::peer_index link, detail::end_ref end, duration most,
                                                   std::vector<std::byte> message) {
  const std::uint64_t sender = core_.net.far_process(end);
  core_.events.after(core_.net.wires().up_to(most), {event_kind::notify, host_, message.size()},
                     [this, here = std::weak_ptr<char>{here_}, link, sender, m = std::move(message)] {
                       if (here.expired()) return;
                       core_.net.wires().dispatch(host_, [this, link, sender, m] {
                         const bool same = is_up(link) && sender != 0 && core_.net.far_process(links_[link].end) == sender;
                         if (same && events_ != nullptr) events_->on_control(link, m);
                         after_event();
                       });
                     });
}

CAUSEWAY_LAZY void basic_fabric<Whole>::post_now(const peer& to, std::vector<std::byte> message, bool bulk) {
  counters_.bytes_sent += message.size() + core_.options.header_bytes;
  ++counters_.frames_sent;
  const detail::lane way = bulk ? detail::lane::bulk : detail::lane::control;
  detail::sent_message_ptr p = core_.net.wires().pool().make(detail::content::control, way);
  if (message.size() <= p->bytes.capacity()) {
    p->bytes.assign(message.begin(), message.end());  // there is room already: better kept
  } else {
    p->bytes = std::move(message);
  }
  core_.net.send(to.end, std::move(p));
}

CAUSEWAY_LAZY void basic_fabric<Whole>::remember(peer& p, const std::vector<std::byte>& message) {
  if (p.recent.size() >= 4) p.recent.erase(p.recent.begin());
  std::erase_if(p.recent, [this](const auto& sent) { return now() - sent.first > std::chrono::seconds{1}; });
  p.recent.emplace_back(now(), message);
}

CAUSEWAY_LAZY void basic_fabric<Whole>::repeat(peer& p) {
  const double chance = core_.options.repeat_after_reconnect;
  for (auto& [when, message] : std::exchange(p.recent, {})) {
    if (static_cast<double>(core_.net.wires().random().uniform()) < chance) post_now(p, std::move(message), false);
  }
}

CAUSEWAY_LAZY void basic_fabric<Whole>::look_at_room() {
  if (process_ == nullptr) return;
  const bool full = mailbox_.kept_bytes() >= core_.options.kept_bytes;
  if (!full && !any_paused_) return;
  any_paused_ = full;
  for (net::peer_index link = 0; link < links_.size(); ++link) {
    const bool pause = full && !mailbox_.wants_anything(link);
    if (links_[link].up && std::exchange(links_[link].paused, pause) != pause) {
      core_.net.wires().pause(links_[link].end, pause);
    }
  }
}

CAUSEWAY_LAZY void basic_fabric<Whole>::stop_send(detail::slot_index slot) {
  if (process_ != nullptr) core_.net.wires().abort(links_[mailbox_.at(slot).peer].end, slot);
}

CAUSEWAY_LAZY result<std::size_t> basic_fabric<Whole>::give_up(detail::slot_index slot, errc code, const char* why) {
  if (mailbox_.at(slot).is_send) stop_send(slot);
  return mailbox_.give_up(slot, code, why);
}

CAUSEWAY_LAZY void basic_fabric<Whole>::later(std::function<void()> what) {
  core_.events.after(duration{0}, {event_kind::notify, host_, id_},
                     [this, here = std::weak_ptr<char>{here_}, f = std::move(what)] {
                       if (here.expired()) return;
                       core_.net.wires().dispatch(host_, [this, f] {
                         f();
                         after_event();
                       });
                     });
}

CAUSEWAY_LAZY void basic_fabric<Whole>::look_at_waiting() {
  if (waiting_ != net::detail::no_slot && mailbox_.done(waiting_)) process_->wake();
}

CAUSEWAY_LAZY void basic_fabric<Whole>::after_event() {
  if (done_ == nullptr || satisfied_ || !(*done_)()) return;
  satisfied_ = true;
  process_->wake();
}

#ifdef CAUSEWAY_COMPILED
template class basic_fabric<void>;
#endif

}}}  // namespace causeway::CAUSEWAY_ABI::sim

#endif  // CAUSEWAY_SIM_IMPL_FABRIC_IPP
