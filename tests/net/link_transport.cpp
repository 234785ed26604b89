// SPDX-License-Identifier: Apache-2.0
#include <causeway/net/link_transport.hpp>

#include "support/catch.hpp"

#include <array>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

using namespace causeway;
using namespace causeway::net;

namespace {

/// Writes down what it is asked.
class fake_fabric final : public fabric {
 public:
  struct call {
    bool is_send;
    peer_index link;
    message_id id;
    const void* bytes;
    std::size_t length;
  };
  std::vector<call> calls;
  std::vector<std::pair<operation, time_point>> waits;

  operation send(peer_index link, const message_id& id, std::span<const std::byte> bytes) override {
    calls.push_back({true, link, id, bytes.data(), bytes.size()});
    return 100 + calls.size();
  }
  operation receive(peer_index link, const message_id& id, std::span<std::byte> buffer) override {
    calls.push_back({false, link, id, buffer.data(), buffer.size()});
    return 100 + calls.size();
  }
  result<std::size_t> wait(operation op, time_point deadline) override {
    waits.emplace_back(op, deadline);
    if (op == 102) return fail(errc::peer_lost, "peer 9", "gone");
    return std::size_t{5};
  }
  [[nodiscard]] bool done(operation op) const override { return op == 101; }
  [[nodiscard]] traffic stats() const override { return {.bytes_sent = 7}; }

  [[nodiscard]] peer_id id() const override { return 1; }
  [[nodiscard]] std::string address() const override { return {}; }
  void attach(fabric_events*) override {}
  [[nodiscard]] time_point now() const override { return {}; }
  void dial(const std::string&) override {}
  void close(peer_index, const std::string&) override {}
  [[nodiscard]] bool is_up(peer_index) const override { return true; }
  void post(peer_index, std::vector<std::byte>, bool) override {}
  void wake_at(time_point) override {}
  void cancel_before(std::uint32_t) override {}
  void aside(std::function<void()>, std::function<void()>) override {}
  void locked(const std::function<void()>& what) override { what(); }
  result<bool> block(const std::function<bool()>& done, time_point) override { return done(); }
  [[nodiscard]] std::string describe_waits() const override { return {}; }
};

const message_id talk{.channel = 1, .epoch = 3, .step = 5, .parent = 9};

}  // namespace

TEST_CASE("link transport: ranks become links, and every message carries the view's epoch", "[net][fast]") {
  const auto under = std::make_shared<fake_fabric>();
  link_transport view{under, {8, 77, 2}, 1, 42};
  CHECK(view.self() == 1);
  CHECK(view.size() == 3);
  std::array<std::byte, 6> bytes{};
  message_id expected = talk;
  expected.epoch = 42;

  const operation out = view.send(2, talk, bytes);
  const operation in = view.receive(0, talk, std::span{bytes}.first(4));
  REQUIRE(under->calls.size() == 2);
  CHECK(under->calls[0].is_send);
  CHECK(under->calls[0].link == 2);
  CHECK((under->calls[0].id == expected));
  CHECK(under->calls[0].bytes == bytes.data());
  CHECK(under->calls[0].length == 6);
  CHECK_FALSE(under->calls[1].is_send);
  CHECK(under->calls[1].link == 8);
  CHECK((under->calls[1].id == expected));
  CHECK(under->calls[1].length == 4);

  CHECK(view.done(out));
  CHECK_FALSE(view.done(in));
  CHECK(view.wait_any(std::array{in, out}, time_point{}));
  CHECK_FALSE(view.wait_any(std::array{in}, time_point{}));
  const time_point deadline{std::chrono::seconds{11}};
  CHECK(*view.wait(out, deadline) == 5);
  CHECK(view.wait(in, deadline).error().code == errc::peer_lost);
  CHECK((under->waits == std::vector<std::pair<operation, time_point>>{{out, deadline}, {in, deadline}}));
  CHECK(view.stats().bytes_sent == 7);
}

TEST_CASE("link transport: a rank that is nobody else's costs its own operation", "[net][fast]") {
  const auto under = std::make_shared<fake_fabric>();
  any_transport view{link_transport{under, {0, 1}, 1, 1}};
  std::array<std::byte, 6> bytes{};
  CHECK(view.wait(view.send(1, talk, bytes), no_deadline).error().code == errc::invalid_argument);
  CHECK(view.wait(view.receive(2, talk, bytes), no_deadline).error().code == errc::invalid_argument);
  CHECK(view.done(view.send(1, talk, bytes)));
  CHECK(view.wait_any(std::array{view.send(1, talk, bytes)}, no_deadline));
  CHECK(under->calls.empty());
}
