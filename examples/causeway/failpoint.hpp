// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_EXAMPLES_FAILPOINT_HPP
#define CAUSEWAY_EXAMPLES_FAILPOINT_HPP

// Dying on purpose, for tests: CAUSEWAY_FAILPOINT=name[:n][@peer] kills this process with SIGKILL when it passes the point
// for the n-th time; only the peer of that number, where one is given. The points are those of the membership
// (docs/design/membership.md), "joining", and "mid_exchange": the n-th message of data that is sent or received.

#include <causeway/net/fabric.hpp>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace app {

class failpoint {
 public:
  explicit failpoint(std::uint32_t peer) {
    const char* const wanted = std::getenv("CAUSEWAY_FAILPOINT");
    if (wanted == nullptr) return;
    name_ = wanted;
    if (const auto at = name_.find('@'); at != std::string::npos) {
      const bool ours = name_.substr(at + 1) == std::to_string(peer);
      name_.resize(ours ? at : 0);
    }
    if (const auto colon = name_.find(':'); colon != std::string::npos) {
      left_ = std::max(1, std::atoi(name_.c_str() + colon + 1));
      name_.resize(colon);
    }
  }

  void pass(std::string_view point) {
    if (point == name_ && --left_ == 0) std::raise(SIGKILL);
  }
  [[nodiscard]] bool is(std::string_view point) const { return name_ == point; }

 private:
  std::string name_;
  std::atomic<int> left_{1};
};

/// A fabric whose data messages are points that are passed.
class passing_fabric final : public causeway::net::fabric {
 public:
  passing_fabric(std::shared_ptr<fabric> over, failpoint& points) : over_{std::move(over)}, points_{points} {}

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
  causeway::net::operation send(causeway::net::peer_index link, const causeway::net::message_id& id,
                                std::span<const std::byte> bytes) override {
    points_.pass("mid_exchange");
    return over_->send(link, id, bytes);
  }
  causeway::net::operation receive(causeway::net::peer_index link, const causeway::net::message_id& id,
                                   std::span<std::byte> buffer) override {
    points_.pass("mid_exchange");
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

 private:
  std::shared_ptr<fabric> over_;
  failpoint& points_;
};

}  // namespace app

#endif  // CAUSEWAY_EXAMPLES_FAILPOINT_HPP
