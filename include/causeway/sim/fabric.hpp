// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_SIM_FABRIC_HPP
#define CAUSEWAY_SIM_FABRIC_HPP

// net::fabric on the simulated network. Events reach their owner between two blocking calls of the process, one at a time,
// and never while the process is stopped; so the "lock" of the contract is that nothing else runs. When the process ends,
// its fabrics let go of the world, and what is called afterwards gives errors.

#include <causeway/core/error.hpp>
#include <causeway/net/fabric.hpp>
#include <causeway/net/operations.hpp>
#include <causeway/sim/dialer.hpp>
#include <causeway/sim/mailbox.hpp>
#include <causeway/sim/process.hpp>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace sim {

template <class Whole>
class basic_fabric;
using fabric = basic_fabric<void>;

template <class Whole>
class basic_fabric final : public net::fabric,
                           public detail::endpoint,
                           private detail::socket_owner,
                           private detail::acquaintance {
 public:
  /// At the first free port of the host from `first_port` on.
  basic_fabric(process& owner, net::peer_id id, std::uint32_t first_port = 1);
  basic_fabric(const basic_fabric&) = delete;
  basic_fabric& operator=(const basic_fabric&) = delete;

  /// Says goodbye: what was sent before still arrives.
  ~basic_fabric() override;

  [[nodiscard]] net::peer_id id() const override { return id_; }
  [[nodiscard]] std::string address() const override;
  [[nodiscard]] time_point now() const override { return clock_.now(); }

  void attach(net::fabric_events* events) override;

  void dial(const std::string& address) override;

  void close(net::peer_index link, const std::string& why) override;

  [[nodiscard]] bool is_up(net::peer_index link) const override;

  void post(net::peer_index link, std::vector<std::byte> message, bool bulk = false) override;

  void wake_at(time_point when) override;

  void cancel_before(std::uint32_t epoch) override;

  /// All of it happens now; what the disk takes passes before `then`.
  void aside(std::function<void()> work, std::function<void()> then) override;

  net::operation send(net::peer_index link, const net::message_id& id, std::span<const std::byte> bytes) override;

  net::operation receive(net::peer_index link, const net::message_id& id, std::span<std::byte> buffer) override;

  result<std::size_t> wait(net::operation op, time_point deadline) override;

  /// Depends on virtual time alone: messages arrive while the process waits or computes, never between two looks.
  [[nodiscard]] bool done(net::operation op) const override { return mailbox_.ended(op); }

  void locked(const std::function<void()>& what) override;

  result<bool> block(const std::function<bool()>& done, time_point deadline) override;

  [[nodiscard]] traffic stats() const override { return counters_; }
  [[nodiscard]] std::string describe_waits() const override { return mailbox_.describe(now()); }

  // ---- beyond the contract ---------------------------------------------------------------------------------------------

  /// What errors call the peer of a link; "peer <link>" otherwise.
  void rename(net::peer_index link, std::string name);
  /// Bytes of messages that came before anybody asked for them.
  [[nodiscard]] std::size_t kept_bytes() const noexcept { return mailbox_.kept_bytes(); }

  void clock_changed() override;

  void process_ended(bool killed) override;

 private:
  /// While the process holds the lock. Also undone where it is killed meanwhile.
  struct lock_count {
    explicit lock_count(std::uint32_t& of) : count{of} { ++count; }
    ~lock_count() { --count; }
    lock_count(const lock_count&) = delete;
    lock_count& operator=(const lock_count&) = delete;
    std::uint32_t& count;
  };

  struct peer {
    net::peer_id id = 0;
    std::string address;
    detail::end_ref end;
    bool up = false;
    bool closing = false;
    bool paused = false;
    std::vector<std::pair<time_point, std::vector<std::byte>>> recent;  ///< see world_options::repeat_after_reconnect
  };

  std::string take_port(std::uint32_t port);

  // ---- what the network says -------------------------------------------------------------------------------------------

  void on_connected(detail::end_ref end, std::uint64_t tag) override { dialer_.connected(end, tag); }

  void on_refused(std::uint64_t tag, const error& why) override { dialer_.failed(tag, why); }

  void on_message(detail::end_ref end, detail::sent_message_ptr message) override;

  void on_closed(detail::end_ref end, const error& why) override;

  void on_sent(detail::end_ref, std::uint32_t operation) override;

  // ---- links -----------------------------------------------------------------------------------------------------------

  bool connected_to(net::peer_id id) override;

  void met(detail::end_ref end, net::peer_id id, const std::string& address) override;

  void not_met(const std::string& address, const error& why) override;

  /// As many as there are links: the peer has none yet.
  [[nodiscard]] net::peer_index find_link(net::peer_id id) const;

  void take_down(net::peer_index link, const std::string& reason);

  void cannot_dial(const std::string& address, const char* why);

  // ---- messages --------------------------------------------------------------------------------------------------------

  void hear(net::peer_index link, detail::end_ref end, std::vector<std::byte>& message);

  /// Up to `most` later, on whatever connection this link then has to the same process.
  void hear_later(net::peer_index link, detail::end_ref end, duration most, std::vector<std::byte> message);

  void post_now(const peer& to, std::vector<std::byte> message, bool bulk);

  void remember(peer& p, const std::vector<std::byte>& message);

  /// A sender that cannot know what arrived before the break says it again.
  void repeat(peer& p);

  /// Tells senders to hold data back while more is kept than may be, but not those of whom something is wanted: it may be
  /// behind what is kept.
  void look_at_room();

  void stop_send(detail::slot_index slot);

  result<std::size_t> give_up(detail::slot_index slot, errc code, const char* why);

  // ---- the process -----------------------------------------------------------------------------------------------------

  /// Happens as an event of its own at this very time, and not while the process is stopped.
  void later(std::function<void()> what);

  void look_at_waiting();

  void after_event();

  process* process_;  // nullptr once it has ended
  detail::core& core_;
  host_clock clock_;
  host_index host_;
  net::peer_id id_;
  std::string address_;
  net::fabric_events* events_ = nullptr;
  detail::dialer dialer_;
  std::deque<peer> links_;
  std::unordered_map<net::peer_id, net::peer_index> by_id_;
  std::unordered_map<std::string, net::peer_index> by_address_;  ///< who was met there last
  std::unordered_map<std::uint64_t, net::peer_index> by_end_;
  scheduler::ticket wake_ = 0;
  time_point wake_when_ = no_deadline;
  time_point aside_until_;
  std::shared_ptr<char> here_ = std::make_shared<char>();  ///< gone when this object or its process is
  traffic counters_;
  detail::mailbox mailbox_{counters_};
  bool any_paused_ = false;
  detail::slot_index waiting_ = net::detail::no_slot;
  const std::function<bool()>* done_ = nullptr;
  bool satisfied_ = false;
};

inline std::shared_ptr<net::fabric> process::make_fabric(net::peer_id id) { return std::make_shared<fabric>(*this, id); }

}}}  // namespace causeway::CAUSEWAY_ABI::sim

#ifndef CAUSEWAY_COMPILED
#include <causeway/sim/impl/fabric.ipp>
#endif

#endif  // CAUSEWAY_SIM_FABRIC_HPP
