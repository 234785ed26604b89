// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_SIM_IMPL_DIALER_IPP
#define CAUSEWAY_SIM_IMPL_DIALER_IPP

#include <causeway/sim/dialer.hpp>

#include <chrono>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace sim { namespace detail {

CAUSEWAY_DECL std::string address_text(network& net, host_index host, std::uint32_t port) {
  return net.at(host).options.name + ':' + std::to_string(port);
}

CAUSEWAY_DECL network_address parse_address(const network& net, const std::string& text) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string::npos || colon + 1 == text.size() || text.size() - colon > 9) return {};
  std::uint32_t port = 0;
  for (const char c : std::string_view{text}.substr(colon + 1)) {
    if (c < '0' || c > '9') return {};
    port = 10 * port + static_cast<std::uint32_t>(c - '0');
  }
  return {net.host_called(text.substr(0, colon)), port};
}

CAUSEWAY_DECL dialer::dialer(network& net, host_index host, net::peer_id id, std::string address, socket_owner& sockets,
                             acquaintance& owner)
    : net_{net}, host_{host}, id_{id}, address_{std::move(address)}, sockets_{sockets}, owner_{owner} {}

CAUSEWAY_DECL void dialer::dial(const std::string& address, const network_address& to) {
  if (find(address) != dials_.end()) return;
  const std::uint64_t tag = ++last_;
  // The network's own deadline ends what gets no answer from the other kernel; this one, what none of its process.
  const duration patience = net_.options().connect_timeout + std::chrono::milliseconds{1};
  const auto give_up = [this, tag] {
    end_dial(tag, fail(errc::unreachable, "", "it took the connection, but did not answer in time"));
  };
  const scheduler::ticket deadline = net_.events().after(patience, {event_kind::timer, host_, tag},
                                                         [this, give_up] { net_.wires().dispatch(host_, give_up); });
  const std::uint64_t attempt = net_.dial(host_, &sockets_, tag, to.host, to.port);
  dials_.emplace(tag, outgoing{address, {}, false, attempt, deadline});
  by_address_[address] = tag;
}

CAUSEWAY_DECL void dialer::open_doors() {
  open_ = true;
  while (open_ && !early_.empty()) {
    const greeting next = std::move(early_.front());
    early_.pop_front();
    if (net_.wires().find(next.end) != nullptr) accept(next);
  }
}

CAUSEWAY_DECL void dialer::stop() {
  for (auto& [tag, d] : dials_) net_.events().cancel(d.deadline);
  dials_.clear();
  by_address_.clear();
  by_end_.clear();
  early_.clear();
}

CAUSEWAY_DECL void dialer::connected(end_ref end, std::uint64_t tag) {
  const auto dialled = dials_.find(tag);
  if (dialled == dials_.end()) return net_.close(end, "not wanted any more", false);
  attach(dialled->second, tag, end);
  say(end, content::hello);
}

CAUSEWAY_DECL bool dialer::heard(end_ref end, const sent_message& message) {
  switch (message.what) {
    case content::hello: hear_hello(end, message); return true;
    case content::welcome: hear_welcome(end, message); return true;
    case content::refusal: hear_refusal(end); return true;
    default: return false;
  }
}

CAUSEWAY_DECL bool dialer::closed(end_ref end, const error& why) {
  if (std::erase_if(early_, [&](const greeting& g) { return g.end == end; }) != 0) return true;
  const auto dialled = find(end);
  if (dialled == dials_.end()) return false;
  end_dial(dialled->first, fail(errc::unreachable, "", why.message));
  return true;
}

CAUSEWAY_DECL auto dialer::find(const std::string& address) -> dial_map::iterator {
  const auto found = by_address_.find(address);
  return found == by_address_.end() ? dials_.end() : dials_.find(found->second);
}

CAUSEWAY_DECL auto dialer::find(end_ref end) -> dial_map::iterator {
  const auto found = by_end_.find(end.value);
  return found == by_end_.end() ? dials_.end() : dials_.find(found->second);
}

CAUSEWAY_DECL void dialer::attach(outgoing& o, std::uint64_t tag, end_ref end) {
  o.end = end;
  by_end_[end.value] = tag;
}

CAUSEWAY_DECL void dialer::detach(outgoing& o) {
  by_end_.erase(o.end.value);
  o.end = {};
}

CAUSEWAY_DECL void dialer::say(end_ref end, content what) {
  sent_message_ptr message = net_.wires().pool().make(what, lane::control);
  message->from_id = id_;
  for (const char c : address_) message->bytes.push_back(static_cast<std::byte>(c));
  net_.send(end, std::move(message));
}

CAUSEWAY_DECL std::string dialer::text_of(const sent_message& message) {
  return {reinterpret_cast<const char*>(message.bytes.data()), message.bytes.size()};
}

CAUSEWAY_DECL void dialer::hear_hello(end_ref end, const sent_message& message) {
  greeting g{end, message.from_id, text_of(message)};
  if (open_) {
    accept(g);
  } else {
    early_.push_back(std::move(g));
  }
}

CAUSEWAY_DECL void dialer::accept(const greeting& g) {
  if (g.id == id_) return net_.close(g.end, "this is a connection to itself", false);
  const auto ours = find(g.address);
  const bool crossing = ours != dials_.end() && !ours->second.refused && id_ < g.id;
  if (crossing || owner_.connected_to(g.id)) {
    say(g.end, content::refusal);
    return net_.close(g.end, "we have a connection already", true);
  }
  if (ours != dials_.end()) forget(ours->first);
  say(g.end, content::welcome);
  owner_.met(g.end, g.id, g.address);
}

CAUSEWAY_DECL void dialer::hear_welcome(end_ref end, const sent_message& message) {
  const auto dialled = find(end);
  if (dialled == dials_.end()) return net_.close(end, "not wanted any more", false);
  detach(dialled->second);
  forget(dialled->first);
  owner_.met(end, message.from_id, text_of(message));
}

CAUSEWAY_DECL void dialer::hear_refusal(end_ref end) {
  const auto dialled = find(end);
  if (dialled == dials_.end()) return;
  net_.close(end, "refused", false);
  detach(dialled->second);
  dialled->second.refused = true;
}

CAUSEWAY_DECL void dialer::forget(std::uint64_t tag) {
  const auto dialled = dials_.find(tag);
  net_.cancel_dial(dialled->second.attempt);
  net_.events().cancel(dialled->second.deadline);
  if (dialled->second.end.value != 0) net_.close(dialled->second.end, "not wanted any more", false);
  detach(dialled->second);
  by_address_.erase(dialled->second.address);
  dials_.erase(dialled);
}

CAUSEWAY_DECL void dialer::end_dial(std::uint64_t tag, const error& why) {
  const auto dialled = dials_.find(tag);
  if (dialled == dials_.end()) return;
  const std::string address = dialled->second.address;
  forget(tag);
  owner_.not_met(address, fail(why.code, address, why.message));
}

}}}}  // namespace causeway::CAUSEWAY_ABI::sim::detail

#endif  // CAUSEWAY_SIM_IMPL_DIALER_IPP
