// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_EXAMPLES_FORWARDING_FABRIC_HPP
#define CAUSEWAY_EXAMPLES_FORWARDING_FABRIC_HPP

// A fabric over another one, and one that also hears what the other tells its owner: the bases of those that look at a part
// of what passes.

#include <causeway/net/fabric.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace app {

class forwarding_fabric : public causeway::net::fabric {
 public:
  explicit forwarding_fabric(std::shared_ptr<fabric> over) : over_{std::move(over)} {}

  [[nodiscard]] causeway::net::peer_id id() const override { return over_->id(); }
  [[nodiscard]] std::string address() const override { return over_->address(); }
  void attach(causeway::net::fabric_events* events) override { over_->attach(events); }
  [[nodiscard]] causeway::time_point now() const override { return over_->now(); }
  void dial(const std::string& address) override { over_->dial(address); }
  void close(causeway::net::peer_index link, const std::string& why) override { over_->close(link, why); }
  [[nodiscard]] bool is_up(causeway::net::peer_index link) const override { return over_->is_up(link); }
  void post(causeway::net::peer_index link, std::vector<std::byte> message, bool bulk) override {
    over_->post(link, std::move(message), bulk);
  }
  void wake_at(causeway::time_point when) override { over_->wake_at(when); }
  void cancel_before(std::uint32_t epoch) override { over_->cancel_before(epoch); }
  void aside(std::function<void()> work, std::function<void()> then) override {
    over_->aside(std::move(work), std::move(then));
  }
  causeway::net::operation send(causeway::net::peer_index link, const causeway::net::message_id& id,
                                std::span<const std::byte> bytes) override {
    return over_->send(link, id, bytes);
  }
  causeway::net::operation receive(causeway::net::peer_index link, const causeway::net::message_id& id,
                                   std::span<std::byte> buffer) override {
    return over_->receive(link, id, buffer);
  }
  causeway::result<std::size_t> wait(causeway::net::operation op, causeway::time_point deadline) override {
    return over_->wait(op, deadline);
  }
  [[nodiscard]] bool done(causeway::net::operation op) const override { return over_->done(op); }
  void locked(const std::function<void()>& what) override { over_->locked(what); }
  causeway::result<bool> block(const std::function<bool()>& done, causeway::time_point deadline) override {
    return over_->block(done, deadline);
  }
  [[nodiscard]] causeway::traffic stats() const override { return over_->stats(); }
  [[nodiscard]] std::string describe_waits() const override { return over_->describe_waits(); }

 protected:
  std::shared_ptr<fabric> over_;
};

/// Stands between the other fabric and its owner, too.
class overhearing_fabric : public forwarding_fabric, protected causeway::net::fabric_events {
 public:
  using forwarding_fabric::forwarding_fabric;

  void attach(causeway::net::fabric_events* events) override {
    if (events == nullptr) over_->attach(nullptr);  // first: until then it may be telling of something
    events_ = events;
    if (events != nullptr) over_->attach(this);
  }

 protected:
  void on_up(causeway::net::peer_index link, causeway::net::peer_id id, const std::string& address) override {
    events_->on_up(link, id, address);
  }
  void on_down(causeway::net::peer_index link, const causeway::error& why) override { events_->on_down(link, why); }
  void on_unreachable(const std::string& address, const causeway::error& why) override {
    events_->on_unreachable(address, why);
  }
  void on_control(causeway::net::peer_index link, std::span<const std::byte> message) override {
    events_->on_control(link, message);
  }
  void on_wake() override { events_->on_wake(); }

 private:
  causeway::net::fabric_events* events_ = nullptr;
};

}  // namespace app

#endif  // CAUSEWAY_EXAMPLES_FORWARDING_FABRIC_HPP
