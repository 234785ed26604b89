// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_EXAMPLES_SWARM_FRONT_HPP
#define CAUSEWAY_EXAMPLES_SWARM_FRONT_HPP

// What the program says on the network of a swarm, before and beside what the library's peers say there. A peer's first
// word is its assignment: who says something else is a guest, which is answered, and which the swarm never sees. So every
// peer knows which stage the others serve, and any of them can tell a newcomer which stage it should serve, and whom it
// finds there.

#include <causeway/net/fabric.hpp>
#include <causeway/net/transport.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "forwarding_fabric.hpp"
#include "peer_talk.hpp"

namespace app {

class swarm_front final : public forwarding_fabric, private causeway::net::fabric_events {
 public:
  /// `talk` must outlive it.
  swarm_front(std::shared_ptr<fabric> over, swarm_assignment mine, std::uint32_t stages, peer_talk& talk)
      : forwarding_fabric{std::move(over)}, mine_{std::move(mine)}, stages_{stages}, talk_{talk} {}

  void attach(causeway::net::fabric_events* events) override {
    if (events == nullptr) over_->attach(nullptr);  // first: until then it may be telling of something
    events_ = events;
    if (events == nullptr) return;
    tell_newcomers();
    over_->attach(this);
  }

  /// What a micro-batch takes here. Others are told when it has changed. From the trainer's thread.
  void measured(double seconds) {
    locked([&] {
      if (std::abs(seconds - mine_.seconds) <= 0.1 * mine_.seconds) return;
      mine_.seconds = seconds;
      for (const auto& [link, who] : met_) {
        if (who.introduced) over_->post(link, assignment_message(), false);
      }
      tell_newcomers();
    });
  }

 private:
  struct other {
    causeway::net::peer_id id = 0;
    std::string address;
    bool introduced = false;  ///< the swarm sees it
    swarm_assignment assignment;
  };

  void on_up(causeway::net::peer_index link, causeway::net::peer_id id, const std::string& address) override {
    met_[link] = {id, address, false, {}};
    over_->post(link, assignment_message(), false);
  }
  void on_down(causeway::net::peer_index link, const causeway::error& why) override {
    const auto known = met_.extract(link);
    if (!known || !known.mapped().introduced) return;
    tell_newcomers();
    events_->on_down(link, why);
  }
  void on_unreachable(const std::string& address, const causeway::error& why) override {
    events_->on_unreachable(address, why);
  }
  void on_wake() override { events_->on_wake(); }

  void on_control(causeway::net::peer_index link, std::span<const std::byte> message) override {
    if (message.empty()) return over_->close(link, "an empty message");
    if (message.front() == peer_talk::assignment) return take_assignment(link, message);
    if (message.front() >= peer_talk::question) return talk_.hear(*over_, link, message);
    if (!met_[link].introduced) return over_->close(link, "speaks before it said which stage it serves");
    events_->on_control(link, message);
  }

  void take_assignment(causeway::net::peer_index link, std::span<const std::byte> message) {
    causeway::net::byte_reader in{message.subspan(1)};
    swarm_assignment said = swarm_assignment::read(in);
    if (said.stage >= stages_) in.refuse();
    if (const auto whole = in.finish("assignment"); !whole) return over_->close(link, whole.error().message);
    other& who = met_[link];
    who.assignment = std::move(said);
    tell_newcomers();
    if (!std::exchange(who.introduced, true)) events_->on_up(link, who.id, who.address);
  }

  [[nodiscard]] std::vector<std::byte> assignment_message() const {
    causeway::net::byte_writer out;
    out.put(static_cast<std::uint8_t>(peer_talk::assignment));
    mine_.write(out);
    return std::move(out).take();
  }

  void tell_newcomers() {
    std::vector<swarm_assignment> all{mine_};
    for (const auto& [link, who] : met_) {
      if (who.introduced) all.push_back(who.assignment);
    }
    talk_.assignments(std::move(all));
  }

  swarm_assignment mine_;
  std::uint32_t stages_;
  peer_talk& talk_;
  causeway::net::fabric_events* events_ = nullptr;
  std::map<causeway::net::peer_index, other> met_;
};

}  // namespace app

#endif  // CAUSEWAY_EXAMPLES_SWARM_FRONT_HPP
