// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TESTS_MEMBERSHIP_TRANSFER_TRANSFER_NET_HPP
#define CAUSEWAY_TESTS_MEMBERSHIP_TRANSFER_TRANSFER_NET_HPP

// A network of a few peers in virtual time, just enough for a state transfer: each pair has a line with a rate and a delay
// in each direction, messages arrive whole and in order, lines can be cut, and a filter may change or drop what passes.

#include <causeway/core/rng.hpp>
#include <causeway/membership/transfer/transfer.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "support/catch.hpp"

namespace transfer_test {

using namespace causeway;
using namespace causeway::membership;

inline duration from_seconds(double s) { return std::chrono::duration_cast<duration>(std::chrono::duration<double>{s}); }

class virtual_net;

/// A peer with some state: floats, a counter and a name.
struct peer final : transfer_effects {
  peer(virtual_net& n, net::peer_id i, std::size_t floats, const transfer_options& options)
      : net{&n}, id{i}, values(floats), transfer{*this, options} {
    remake();
  }

  void remake(std::uint32_t chunk_bytes = default_chunk_bytes) {
    image = state_image{chunk_bytes};
    image_collector all;
    all(values, counter, name);
    for (const auto part : all.parts()) image.add(part);
  }
  void fill(std::uint64_t seed) {
    for (float& v : values) v = static_cast<float>((seed = seed * 6364136223846793005U + 1442695040888963407U) >> 40U);
    image.touch();
  }
  void offer(std::uint64_t round) {
    image.touch();
    (void)image.root();
    transfer.giving.offer(round, image);
  }
  state_name state(std::uint64_t round) {
    image.touch();
    return {round, image.root()};
  }

  void transfer_send(net::peer_id to, std::vector<std::byte> message) override;
  void transfer_wake_at(time_point when) override { wakes_at = when; }

  virtual_net* net;
  net::peer_id id;
  std::vector<float> values;
  std::uint64_t counter = 0;
  std::string name = "model";
  state_image image;
  state_transfer transfer;
  time_point wakes_at = no_deadline;
};

class virtual_net {
 public:
  struct line {
    double bytes_per_second = 1e9;
    duration delay{0};
    bool up = true;
    time_point busy_until{};
    std::uint64_t epoch = 0;  // grows with each cut: what is on its way is lost
    std::uint64_t bytes = 0;
    std::uint64_t messages = 0;
  };
  using filter = std::function<bool(net::peer_id from, net::peer_id to, std::vector<std::byte>&)>;

  explicit virtual_net(std::size_t floats = 300'000, transfer_options options = {}) : floats_{floats}, options_{options} {}

  peer& add(net::peer_id id) {
    auto& p = *peers_.emplace(id, std::make_unique<peer>(*this, id, floats_, options_)).first->second;
    for (auto& [other, q] : peers_) {
      if (other == id) continue;
      p.transfer.peer_up(other, now);
      q->transfer.peer_up(id, now);
    }
    return p;
  }

  line& way(net::peer_id from, net::peer_id to) { return lines_[{from, to}]; }
  void set_line(net::peer_id a, net::peer_id b, double rate, duration delay) {
    for (line* l : {&way(a, b), &way(b, a)}) l->bytes_per_second = rate, l->delay = delay;
  }

  void cut(net::peer_id a, net::peer_id b) {
    for (line* l : {&way(a, b), &way(b, a)}) l->up = false, ++l->epoch, l->busy_until = now;
    peers_.at(a)->transfer.peer_down(b, now);
    peers_.at(b)->transfer.peer_down(a, now);
  }
  void mend(net::peer_id a, net::peer_id b) {
    for (line* l : {&way(a, b), &way(b, a)}) l->up = true;
    peers_.at(a)->transfer.peer_up(b, now);
    peers_.at(b)->transfer.peer_up(a, now);
  }

  void post(net::peer_id from, net::peer_id to, std::vector<std::byte> message) {
    if (!peers_.contains(to)) return;
    line& l = way(from, to);
    if (!l.up) return;
    ++l.messages;
    ++posted;
    l.bytes += message.size();
    if (on_post && !on_post(from, to, message)) return;
    const time_point starts = std::max(now, l.busy_until);
    l.busy_until = starts + from_seconds(static_cast<double>(message.size()) / l.bytes_per_second);
    events_.emplace(std::pair{l.busy_until + l.delay, serial_++}, event{from, to, l.epoch, std::move(message)});
  }

  [[nodiscard]] peer& at(net::peer_id id) { return *peers_.at(id); }

  void at_time(time_point when, std::function<void()> what) {
    events_.emplace(std::pair{when, serial_++}, event{0, 0, 0, {}, std::move(what)});
  }

  /// Lets time pass until nothing is left to happen, `done` holds, or `until` has come.
  void run(
      const std::function<bool()>& done = [] { return false; }, time_point until = time_point{std::chrono::hours{24}}) {
    while (!done()) {
      time_point next = events_.empty() ? no_deadline : events_.begin()->first.first;
      peer* waking = nullptr;
      for (auto& [id, p] : peers_) {
        if (p->wakes_at < next) next = p->wakes_at, waking = p.get();
      }
      if (next > until) return;
      now = std::max(now, next);
      if (waking != nullptr) {
        waking->wakes_at = no_deadline;
        waking->transfer.wake(now);
      } else {
        const auto first = events_.begin();
        const event e = std::move(first->second);
        events_.erase(first);
        deliver(e);
      }
    }
  }

  time_point now{};
  filter on_post;
  std::uint64_t posted = 0;

 private:
  struct event {
    net::peer_id from = 0;
    net::peer_id to = 0;
    std::uint64_t epoch = 0;
    std::vector<std::byte> message{};
    std::function<void()> call{};
  };

  void deliver(const event& e) {
    if (e.call) return e.call();
    const line& l = way(e.from, e.to);
    if (l.up && l.epoch == e.epoch) (void)peers_.at(e.to)->transfer.message(e.from, e.message, now);
  }

  std::size_t floats_;
  transfer_options options_;
  std::map<net::peer_id, std::unique_ptr<peer>> peers_;
  std::map<std::pair<net::peer_id, net::peer_id>, line> lines_;
  std::map<std::pair<time_point, std::uint64_t>, event> events_;
  std::uint64_t serial_ = 0;
};

inline void peer::transfer_send(net::peer_id to, std::vector<std::byte> message) { net->post(id, to, std::move(message)); }

using status = fetcher::status;
using namespace std::chrono_literals;

inline constexpr net::peer_id me = 9;

// Peer 9 wants the state of round 1, which peers 1 to `donors` hold.
struct fetch {
  explicit fetch(std::size_t donors, std::size_t floats = 600'000, transfer_options options = {}) : net{floats, options} {
    taker = &net.add(me);
    taker->fill(8);
    for (net::peer_id id = 1; id <= donors; ++id) {
      peer& p = net.add(id);
      p.fill(7);
      p.counter = 5;
      p.offer(1);
      goal = p.state(1);
      net.set_line(me, id, 10e6, 20ms);
      holders.push_back(id);
    }
  }

  [[nodiscard]] fetcher& taking() { return taker->transfer.taking; }
  [[nodiscard]] donor& giving(net::peer_id id) { return net.at(id).transfer.giving; }
  [[nodiscard]] fetch_progress progress() { return taking().progress(); }

  void start() {
    (void)taker->state(0);
    taking().start(goal, holders, taker->image, net.now);
  }
  status run() {
    net.run([&] { return taking().state() != status::running; });
    return taking().state();
  }
  // Complete, and bit for bit what was wanted.
  void check_whole() {
    REQUIRE(taking().state() == status::complete);
    CHECK(taker->state(0).root != goal.root);
    REQUIRE(taking().commit(taker->image));
    CHECK(taker->state(1) == goal);
    CHECK(taker->values == net.at(1).values);
    CHECK(taker->counter == 5);
  }

  virtual_net net;
  peer* taker = nullptr;
  state_name goal;
  std::vector<net::peer_id> holders;
};

}  // namespace transfer_test

#endif  // CAUSEWAY_TESTS_MEMBERSHIP_TRANSFER_TRANSFER_NET_HPP
