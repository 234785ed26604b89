// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TESTS_SIM_CLUSTER_HPP
#define CAUSEWAY_TESTS_SIM_CLUSTER_HPP

// What tests of the simulator share: a few hosts, and an owner of a fabric that writes down what it is told.

#include <causeway/sim/world.hpp>

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

namespace cluster {

using namespace causeway;
using namespace std::chrono_literals;

inline constexpr net::message_id some_id{.channel = 32, .epoch = 1, .step = 7, .parent = 99};

inline time_point at(duration d) { return time_point{d}; }

inline std::vector<std::byte> bytes_of(const std::string& text) {
  std::vector<std::byte> bytes;
  for (const char c : text) bytes.push_back(static_cast<std::byte>(c));
  return bytes;
}

inline std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// `peers` hosts, all alike.
inline void add_hosts(sim::world& w, std::uint32_t peers, const sim::host_options& options = {}) {
  for (std::uint32_t i = 0; i < peers; ++i) w.add_host(options);
}

/// Events of one fabric as lines: "up 11", "down 11", "unreachable host-1:1", "hello" (a control message), "wake".
struct diary final : net::fabric_events {
  explicit diary(net::fabric& of) : fabric{of} { of.attach(this); }
  ~diary() override { fabric.attach(nullptr); }
  diary(const diary&) = delete;
  diary& operator=(const diary&) = delete;

  struct entry {
    time_point when;
    std::string what;
  };

  void on_up(net::peer_index link, net::peer_id id, const std::string& address) override {
    if (ids.size() <= link) ids.resize(link + 1);
    ids[link] = id;
    last_address = address;
    ++ups;
    note("up " + std::to_string(id));
  }
  void on_down(net::peer_index link, const error& why) override {
    last_error = why;
    ++downs;
    note("down " + std::to_string(ids[link]));
  }
  void on_unreachable(const std::string& address, const error& why) override {
    last_error = why;
    note("unreachable " + address);
  }
  void on_control(net::peer_index, std::span<const std::byte> message) override { note(text_of(message)); }
  void on_wake() override { note("wake"); }

  [[nodiscard]] std::vector<std::string> lines() const {
    std::vector<std::string> all;
    for (const entry& e : entries) all.push_back(e.what);
    return all;
  }
  [[nodiscard]] bool saw(const std::string& what) const {
    for (const entry& e : entries) {
      if (e.what == what) return true;
    }
    return false;
  }
  /// When `what` came first; the beginning of time if it never did.
  [[nodiscard]] duration time_of(const std::string& what) const {
    for (const entry& e : entries) {
      if (e.what == what) return e.when.since_start;
    }
    return duration{-1};
  }

  net::fabric& fabric;
  std::vector<entry> entries;
  std::vector<net::peer_id> ids;
  std::string last_address;
  error last_error{};
  int ups = 0;
  int downs = 0;

 private:
  void note(std::string what) { entries.push_back({fabric.now(), std::move(what)}); }
};

/// Boots `body(process, transport)` on the hosts 0 to peers - 1, one transport among them all, all starting at `begin` so
/// that nobody's meeting is in the way of what is measured.
template <class Body>
void boot_peers(sim::world& w, std::uint32_t peers, const Body& body, time_point begin = at(1s)) {
  std::vector<sim::host_index> all(peers);
  for (sim::host_index h = 0; h < peers; ++h) all[h] = h;
  for (const sim::host_index h : all) {
    w.boot(h, [all, body, begin](sim::process& p) {
      auto net = p.make_transport(all);
      if (!net) throw std::runtime_error{net.error().text()};
      p.sleep_till(begin);
      body(p, *net);
    });
  }
}

/// A world option that makes connecting take exactly its round trips.
inline sim::world_options exact(duration latency = 1ms) {
  sim::world_options o;
  o.link.latency = latency;
  o.connect_delay_min = o.connect_delay_max = 0ms;
  o.header_bytes = 0;
  return o;
}

}  // namespace cluster

#endif  // CAUSEWAY_TESTS_SIM_CLUSTER_HPP
