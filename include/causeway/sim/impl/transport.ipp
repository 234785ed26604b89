// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_SIM_IMPL_TRANSPORT_IPP
#define CAUSEWAY_SIM_IMPL_TRANSPORT_IPP

#include <causeway/sim/transport.hpp>

#include <algorithm>
#include <chrono>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace sim { namespace detail {

CAUSEWAY_DECL meeting::meeting(fabric& here, std::uint32_t self, std::vector<std::string> addresses)
    : fabric_{here}, self_{self}, addresses_{std::move(addresses)}, links_(addresses_.size()), met_(addresses_.size()) {
  met_[self_] = true;
  missing_ = addresses_.size() - 1;
}

CAUSEWAY_DECL void meeting::begin() {
  fabric_.attach(this);
  for (std::size_t p = self_ + 1; p < addresses_.size(); ++p) fabric_.dial(addresses_[p]);
}

CAUSEWAY_DECL std::string meeting::absent() const {
  std::string names;
  for (std::size_t p = 0; p < met_.size(); ++p) {
    if (!met_[p]) names += (names.empty() ? "peer " : ", peer ") + std::to_string(p);
  }
  return names;
}

CAUSEWAY_INLINE void meeting::on_up(net::peer_index link, net::peer_id id, const std::string&) {
  const auto p = static_cast<std::size_t>(id - 1);
  if (id == 0 || p >= met_.size()) return fabric_.close(link, "not one of this run's peers");
  links_[p] = link;
  fabric_.rename(link, "peer " + std::to_string(p));
  if (!met_[p]) --missing_;
  met_[p] = true;
}

CAUSEWAY_INLINE void meeting::on_unreachable(const std::string& address, const error&) {
  again_.push_back(address);
  fabric_.wake_at(fabric_.now() + std::chrono::milliseconds{100});
}

CAUSEWAY_INLINE void meeting::on_wake() {
  for (const std::string& address : std::exchange(again_, {})) fabric_.dial(address);
}

}}}}  // namespace causeway::CAUSEWAY_ABI::sim::detail

namespace causeway { inline namespace CAUSEWAY_ABI { namespace sim {

CAUSEWAY_DECL transport::transport(std::unique_ptr<fabric> here, std::unique_ptr<detail::meeting> met, net::peer_index self)
    : meeting_{std::move(met)}, fabric_{std::move(here)}, self_{self} {}

CAUSEWAY_DECL net::operation transport::send(net::peer_index to, const net::message_id& id,
                                             std::span<const std::byte> bytes) {
  return fabric_->send(link_of(to), id, bytes);
}

CAUSEWAY_DECL net::operation transport::receive(net::peer_index from, const net::message_id& id,
                                                std::span<std::byte> buffer) {
  return fabric_->receive(link_of(from), id, buffer);
}

CAUSEWAY_DECL bool transport::wait_any(std::span<const net::operation> ops, time_point deadline) {
  const auto ended = [&] { return std::any_of(ops.begin(), ops.end(), [&](auto op) { return fabric_->done(op); }); };
  return fabric_->block(ended, deadline).value_or(false);
}

CAUSEWAY_DECL net::peer_index transport::link_of(net::peer_index peer) const {
  return peer < size() && peer != self_ ? meeting_->links()[peer] : UINT32_MAX;
}

CAUSEWAY_DECL result<transport> process::make_transport(std::vector<host_index> peers, duration patience) {
  const auto me = std::find(peers.begin(), peers.end(), host_);
  if (me == peers.end()) return fail(errc::invalid_argument, "transport", "this host is not one of the peers");
  const auto self = static_cast<net::peer_index>(me - peers.begin());
  auto here = std::make_unique<fabric>(*this, self + 1, detail::first_transport_port);
  const std::string port = here->address().substr(here->address().rfind(':'));
  std::vector<std::string> addresses;
  for (const host_index h : peers) addresses.push_back(core_.net.at(h).options.name + port);
  auto meeting = std::make_unique<detail::meeting>(*here, self, std::move(addresses));
  meeting->begin();
  const auto outcome = here->block([&] { return meeting->complete(); }, now() + patience);
  if (!outcome) return outcome.error();
  if (!*outcome) return fail(errc::timeout, meeting->absent(), "did not come in time; was it started?");
  return transport{std::move(here), std::move(meeting), self};
}

}}}  // namespace causeway::CAUSEWAY_ABI::sim

#endif  // CAUSEWAY_SIM_IMPL_TRANSPORT_IPP
