// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_SIM_TRANSPORT_HPP
#define CAUSEWAY_SIM_TRANSPORT_HPP

// net::Transport over a simulated fabric: a fixed set of peers that all meet before the first message. With it every
// policy, collective and trainer runs on virtual time as it is.

#include <causeway/core/error.hpp>
#include <causeway/core/result.hpp>
#include <causeway/net/transport.hpp>
#include <causeway/sim/fabric.hpp>
#include <causeway/sim/process.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace sim {

namespace detail {

inline constexpr std::uint32_t first_transport_port = 1001;

/// Brings fixed peers together: each dials those behind it in the list, again and again until they are there.
class meeting final : public net::fabric_events {
 public:
  CAUSEWAY_DECL meeting(fabric& here, std::uint32_t self, std::vector<std::string> addresses);

  CAUSEWAY_DECL void begin();

  [[nodiscard]] bool complete() const noexcept { return missing_ == 0; }
  [[nodiscard]] const std::vector<net::peer_index>& links() const noexcept { return links_; }
  CAUSEWAY_DECL [[nodiscard]] std::string absent() const;

  CAUSEWAY_INLINE void on_up(net::peer_index link, net::peer_id id, const std::string&) override;
  void on_down(net::peer_index, const error&) override {}
  CAUSEWAY_INLINE void on_unreachable(const std::string& address, const error&) override;
  void on_control(net::peer_index, std::span<const std::byte>) override {}
  CAUSEWAY_INLINE void on_wake() override;

 private:
  fabric& fabric_;
  std::uint32_t self_;
  std::vector<std::string> addresses_;
  std::vector<net::peer_index> links_;
  std::vector<bool> met_;
  std::size_t missing_ = 0;
  std::vector<std::string> again_;
};

}  // namespace detail

/// See process::make_transport. Movable; its destruction says goodbye to the others, who still get what was sent.
class transport {
 public:
  CAUSEWAY_DECL transport(std::unique_ptr<fabric> here, std::unique_ptr<detail::meeting> met, net::peer_index self);

  [[nodiscard]] net::peer_index self() const noexcept { return self_; }
  [[nodiscard]] std::uint32_t size() const noexcept { return static_cast<std::uint32_t>(meeting_->links().size()); }

  CAUSEWAY_DECL net::operation send(net::peer_index to, const net::message_id& id, std::span<const std::byte> bytes);
  CAUSEWAY_DECL net::operation receive(net::peer_index from, const net::message_id& id, std::span<std::byte> buffer);
  result<std::size_t> wait(net::operation op, time_point deadline) { return fabric_->wait(op, deadline); }
  [[nodiscard]] bool done(net::operation op) const { return fabric_->done(op); }
  CAUSEWAY_DECL bool wait_any(std::span<const net::operation> ops, time_point deadline);
  [[nodiscard]] traffic stats() const { return fabric_->stats(); }

 private:
  // Peers that do not exist, and this one, are links that do not exist: the fabric says so.
  CAUSEWAY_DECL [[nodiscard]] net::peer_index link_of(net::peer_index peer) const;

  std::unique_ptr<detail::meeting> meeting_;  // after the fabric, which calls it
  std::unique_ptr<fabric> fabric_;
  net::peer_index self_;
};
static_assert(net::Transport<transport>);

}}}  // namespace causeway::CAUSEWAY_ABI::sim

#ifndef CAUSEWAY_COMPILED
#include <causeway/sim/impl/transport.ipp>
#endif

#endif  // CAUSEWAY_SIM_TRANSPORT_HPP
