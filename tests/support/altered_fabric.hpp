// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TESTS_SUPPORT_ALTERED_FABRIC_HPP
#define CAUSEWAY_TESTS_SUPPORT_ALTERED_FABRIC_HPP

// A peer that misbehaves without knowing it: a fabric that alters what its process sends, and may keep it from going on.

#include <causeway/net/fabric.hpp>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace support {

/// What a test does to one peer. Each may be empty.
struct misbehaviour {
  /// A data message on its way out, which it may change in place.
  std::function<void(const causeway::net::message_id&, std::span<std::byte>)> alters{};
  /// A control message on its way out. False: it is lost.
  std::function<bool(std::vector<std::byte>&)> lets_out{};
  /// Called before every wait for data: a hung trainer does not return from it.
  std::function<void()> hangs{};
  /// Called whenever the trainer has given the lock back: others may come first before it takes it again.
  std::function<void()> unlocks{};
};

class altered_fabric final : public causeway::net::fabric {
 public:
  altered_fabric(std::shared_ptr<causeway::net::fabric> below, misbehaviour what)
      : below_{std::move(below)}, what_{std::move(what)} {}
  [[nodiscard]] causeway::net::peer_id id() const override { return below_->id(); }
  [[nodiscard]] std::string address() const override { return below_->address(); }
  void attach(causeway::net::fabric_events* events) override { below_->attach(events); }
  [[nodiscard]] causeway::time_point now() const override { return below_->now(); }
  void dial(const std::string& address) override { below_->dial(address); }
  void close(causeway::net::peer_index link, const std::string& why) override { below_->close(link, why); }
  [[nodiscard]] bool is_up(causeway::net::peer_index link) const override { return below_->is_up(link); }
  void post(causeway::net::peer_index link, std::vector<std::byte> message, bool bulk) override {
    if (what_.lets_out && !what_.lets_out(message)) return;
    below_->post(link, std::move(message), bulk);
  }
  void wake_at(causeway::time_point when) override { below_->wake_at(when); }
  void cancel_before(std::uint32_t epoch) override { below_->cancel_before(epoch); }
  void aside(std::function<void()> work, std::function<void()> then) override {
    below_->aside(std::move(work), std::move(then));
  }
  causeway::net::operation send(causeway::net::peer_index link, const causeway::net::message_id& id,
                                std::span<const std::byte> bytes) override {
    if (!what_.alters) return below_->send(link, id, bytes);
    std::vector<std::byte> copy{bytes.begin(), bytes.end()};
    what_.alters(id, copy);
    const auto op = below_->send(link, id, copy);
    sent_[op] = std::move(copy);
    return op;
  }
  causeway::net::operation receive(causeway::net::peer_index link, const causeway::net::message_id& id,
                                   std::span<std::byte> buffer) override {
    return below_->receive(link, id, buffer);
  }
  causeway::result<std::size_t> wait(causeway::net::operation op, causeway::time_point deadline) override {
    if (what_.hangs && deadline > now()) what_.hangs();
    const auto moved = below_->wait(op, deadline);
    sent_.erase(op);
    return moved;
  }
  [[nodiscard]] bool done(causeway::net::operation op) const override { return below_->done(op); }
  void locked(const std::function<void()>& what) override {
    below_->locked(what);
    if (what_.unlocks) what_.unlocks();
  }
  causeway::result<bool> block(const std::function<bool()>& done, causeway::time_point deadline) override {
    return below_->block(done, deadline);
  }
  [[nodiscard]] causeway::traffic stats() const override { return below_->stats(); }
  [[nodiscard]] std::string describe_waits() const override { return below_->describe_waits(); }

 private:
  std::shared_ptr<causeway::net::fabric> below_;
  misbehaviour what_;
  std::map<causeway::net::operation, std::vector<std::byte>> sent_;  // under way
};

}  // namespace support

#endif  // CAUSEWAY_TESTS_SUPPORT_ALTERED_FABRIC_HPP
