// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PARALLEL_SWARM_MAIL_HPP
#define CAUSEWAY_PARALLEL_SWARM_MAIL_HPP

// Boundary tensors on their way between the peers of a swarm. Each is announced by a parcel message; its data follows
// under the parcel's number. What belongs to steps that are over is cancelled by the fabric's epochs.

#include <causeway/collective/channels.hpp>
#include <causeway/config/config.hpp>
#include <causeway/core/clock.hpp>
#include <causeway/core/result.hpp>
#include <causeway/net/fabric.hpp>
#include <causeway/parallel/swarm_messages.hpp>
#include <causeway/parallel/swarm_station.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace causeway::inline CAUSEWAY_ABI::parallel {

/// For the trainer's thread, without the fabric's lock; `any_done` with it.
class swarm_mail {
 public:
  explicit swarm_mail(net::fabric& fabric) : fabric_{fabric} {}
  swarm_mail(const swarm_mail&) = delete;
  swarm_mail& operator=(const swarm_mail&) = delete;
  ~swarm_mail() { clear(); }

  struct arrival {
    std::uint32_t micro_batch = 0;
    bool backward = false;
    boundary_bytes bytes;
  };

  void send(net::peer_index to, const swarm_wire::parcel& p, boundary_bytes bytes) {
    sends_.push_back({fabric_.send(to, id_of(p), *bytes), std::move(bytes)});
  }

  /// `most`: bytes of the boundary tensor, or more.
  void expect(net::peer_index from, const swarm_wire::parcel& p, std::size_t most) {
    auto room = std::make_shared<std::vector<std::byte>>(most);
    const auto op = fabric_.receive(from, id_of(p), *room);
    receives_.push_back({op, p, std::move(room)});
  }

  /// What has come, whole. What broke is passed over: its sender sends it again, or another peer does.
  [[nodiscard]] std::vector<arrival> collect() {
    std::vector<arrival> all;
    std::erase_if(sends_, [this](const sending& s) {
      if (!fabric_.done(s.op)) return false;
      (void)fabric_.wait(s.op, no_deadline);
      return true;
    });
    std::erase_if(receives_, [&](receiving& r) {
      if (!fabric_.done(r.op)) return false;
      const auto got = fabric_.wait(r.op, no_deadline);
      if (!got) return true;
      r.room->resize(*got);
      all.push_back({r.what.micro_batch, r.what.backward != 0, std::move(r.room)});
      return true;
    });
    return all;
  }

  [[nodiscard]] bool any_done() const {
    return std::any_of(sends_.begin(), sends_.end(), [this](const auto& s) { return fabric_.done(s.op); }) ||
           std::any_of(receives_.begin(), receives_.end(), [this](const auto& r) { return fabric_.done(r.op); });
  }

  /// What belongs to earlier steps is no longer received.
  void forget_before(std::uint64_t turn) { fabric_.cancel_before(epoch_of(turn)); }

  /// Ends what is under way.
  void clear() {
    for (const auto& s : sends_) (void)fabric_.wait(s.op, time_point{});
    for (const auto& r : receives_) (void)fabric_.wait(r.op, time_point{});
    sends_.clear();
    receives_.clear();
  }

 private:
  struct sending {
    net::operation op = 0;
    boundary_bytes bytes;
  };
  struct receiving {
    net::operation op = 0;
    swarm_wire::parcel what;
    std::shared_ptr<std::vector<std::byte>> room;
  };

  static std::uint32_t epoch_of(std::uint64_t turn) noexcept {
    return static_cast<std::uint32_t>(swarm_wire::step_of(turn)) + 1;
  }
  static net::message_id id_of(const swarm_wire::parcel& p) {
    return {.channel = collective::channels::activations, .epoch = epoch_of(p.turn), .step = p.serial};
  }

  net::fabric& fabric_;
  std::vector<sending> sends_;
  std::vector<receiving> receives_;
};

}  // namespace causeway::inline CAUSEWAY_ABI::parallel

#endif  // CAUSEWAY_PARALLEL_SWARM_MAIL_HPP
