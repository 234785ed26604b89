// SPDX-License-Identifier: Apache-2.0
#include "welcome.hpp"

#include <causeway/net/asio_fabric.hpp>

#include <chrono>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <utility>

#include "addresses.hpp"
#include "stop.hpp"

namespace app {
namespace {

namespace net = causeway::net;
using causeway::errc;
using causeway::fail;

class guest final : public net::fabric_events {
 public:
  guest(net::fabric& over, std::string address) : over_{over}, address_{std::move(address)} {}

  [[nodiscard]] bool done() const { return told_ || refused_; }
  [[nodiscard]] causeway::result<run_welcome> outcome() const {
    if (told_) return *told_;
    if (refused_) return *refused_;
    return fail(errc::unreachable, address_,
                "nobody answers there" + (last_.empty() ? std::string{} : ": " + last_) +
                    "; give the address of a peer that is in the run now");
  }

 private:
  void on_up(net::peer_index link, net::peer_id, const std::string&) override { over_.post(link, {peer_talk::question}); }
  void on_down(net::peer_index, const causeway::error& why) override { try_again(why); }
  void on_unreachable(const std::string&, const causeway::error& why) override {
    if (why.code == errc::wrong_run) {
      refused_ = fail(errc::wrong_run, address_,
                      "serves another run; give the name and the seed of the run that you want to join with --run.name and "
                      "--run.seed, and --run.branch if it was founded anew");
    }
    try_again(why);
  }
  void on_control(net::peer_index, std::span<const std::byte> message) override {
    if (message.empty() || message.front() != peer_talk::answer) return;
    auto w = run_welcome::decode(message);
    if (w) told_ = std::move(*w);
    if (!w) refused_ = w.error();
  }
  void on_wake() override { over_.dial(address_); }

  void try_again(const causeway::error& why) {
    last_ = why.message;
    over_.wake_at(over_.now() + std::chrono::milliseconds{300});
  }

  net::fabric& over_;
  std::string address_;
  std::optional<run_welcome> told_;
  std::optional<causeway::error> refused_;
  std::string last_;
};

}  // namespace

causeway::result<visit> ask_for_welcome(const std::string& address, std::uint64_t run_id, std::uint32_t patience) {
  net::fabric_options options;
  options.run_id = run_id;
  options.id = fresh_identity(999);
  options.streams_per_link = 1;
  net::endpoint here = listen_near(address);
  here.port = 0;
  CAUSEWAY_ASSIGN(const auto fabric, net::open_fabric(here, options));
  guest asks{*fabric, address};
  fabric->attach(&asks);
  fabric->locked([&] { fabric->dial(address); });
  const auto end = fabric->now() + std::chrono::seconds{patience};
  bool done = false;
  while (!done && fabric->now() < end) {
    if (stop_requested()) return fail(errc::cancelled, address, "stopped on request");
    CAUSEWAY_ASSIGN(done, fabric->block([&] { return asks.done(); }, fabric->now() + std::chrono::milliseconds{200}));
  }
  fabric->attach(nullptr);
  CAUSEWAY_ASSIGN(run_welcome said, asks.outcome());
  return visit{std::move(said), fabric};
}

std::uint64_t fresh_secret() {
  std::random_device source;
  return std::uint64_t{source()} << 32U | source();
}

net::peer_id fresh_identity(std::uint32_t index) {
  return (fresh_secret() % 1'000'000'000'000ULL + 1) * 1000 + index % 1000;
}

net::endpoint listen_near(const std::string& others) {
  if (others.empty()) return {"127.0.0.1", 0};
  const auto there = net::parse_endpoint(others);
  const auto here = there ? address_towards(*there) : causeway::result<std::string>{there.error()};
  return {here ? *here : "0.0.0.0", 0};
}

}  // namespace app
