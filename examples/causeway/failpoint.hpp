// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_EXAMPLES_FAILPOINT_HPP
#define CAUSEWAY_EXAMPLES_FAILPOINT_HPP

// Failing on purpose, for tests: CAUSEWAY_FAILPOINT=name[:n][@peer] kills this process with SIGKILL when it passes the
// point for the n-th time; only the peer of that number, where one is given. CAUSEWAY_FAILPOINT=not_finite:n[@peer] makes a
// parameter of this peer NaN in every n-th round instead, as a broken machine would. CAUSEWAY_FAILPOINT=pause:n[@peer]
// makes every step n milliseconds longer, as if another device computed it: so many peers fit on few cores. The points are
// those of the membership (docs/design/membership.md), "joining", "mid_exchange": the n-th message of data that is sent or
// received, and "mid_step": the n-th tensor that this peer sends to another stage of a pipeline while it trains.

#include <causeway/collective/channels.hpp>
#include <causeway/net/fabric.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "forwarding_fabric.hpp"

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

  /// After computing; `part`: of a training step.
  void pause(double part) const {
    if (name_ != "pause") return;
    std::this_thread::sleep_for(std::chrono::duration<double, std::milli>(part * left_.load()));
  }

  /// Whether a parameter is to be spoilt before the step that begins in `round`: once in such a round.
  [[nodiscard]] bool spoils(std::uint64_t round) {
    const auto every = static_cast<std::uint64_t>(left_.load());
    return name_ == "not_finite" && round % every == every - 1 && std::exchange(spoilt_, round) != round;
  }

 private:
  std::string name_;
  std::atomic<int> left_{1};
  std::uint64_t spoilt_ = UINT64_MAX;  // the last round
};

/// A fabric whose data messages are points that are passed.
class passing_fabric final : public forwarding_fabric {
 public:
  passing_fabric(std::shared_ptr<fabric> over, failpoint& points) : forwarding_fabric{std::move(over)}, points_{points} {}

  causeway::net::operation send(causeway::net::peer_index link, const causeway::net::message_id& id,
                                std::span<const std::byte> bytes) override {
    points_.pass("mid_exchange");
    if (trains_on(id.channel % causeway::collective::channel_limit)) points_.pass("mid_step");
    return over_->send(link, id, bytes);
  }
  causeway::net::operation receive(causeway::net::peer_index link, const causeway::net::message_id& id,
                                   std::span<std::byte> buffer) override {
    points_.pass("mid_exchange");
    return over_->receive(link, id, buffer);
  }

 private:
  // Forward and backward; those of evaluations follow.
  static bool trains_on(std::uint32_t channel) {
    constexpr std::uint32_t forward = causeway::collective::channels::activations;
    return channel == forward || channel == forward + 1;
  }

  failpoint& points_;
};

}  // namespace app

#endif  // CAUSEWAY_EXAMPLES_FAILPOINT_HPP
