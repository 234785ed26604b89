// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_EXAMPLES_HEARING_FABRIC_HPP
#define CAUSEWAY_EXAMPLES_HEARING_FABRIC_HPP

// A fabric that tells, besides, the addresses of the peers that it meets.

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "forwarding_fabric.hpp"

namespace app {

class hearing_fabric final : public forwarding_fabric, private causeway::net::fabric_events {
 public:
  hearing_fabric(std::shared_ptr<fabric> over, std::function<void(const std::string&)> heard)
      : forwarding_fabric{std::move(over)}, heard_{std::move(heard)} {}

  void attach(causeway::net::fabric_events* events) override {
    if (events == nullptr) over_->attach(nullptr);  // first: until then it may be telling of something
    events_ = events;
    if (events != nullptr) over_->attach(this);
  }

 private:
  void on_up(causeway::net::peer_index link, causeway::net::peer_id id, const std::string& address) override {
    heard_(address);
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

  std::function<void(const std::string&)> heard_;
  causeway::net::fabric_events* events_ = nullptr;
};

}  // namespace app

#endif  // CAUSEWAY_EXAMPLES_HEARING_FABRIC_HPP
