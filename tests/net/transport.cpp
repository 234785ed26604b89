// SPDX-License-Identifier: Apache-2.0
#include <causeway/net/transport.hpp>

#include <array>
#include <concepts>

#include "support/catch.hpp"

#include <utility>

using namespace causeway;
using namespace causeway::net;

namespace {

/// Remembers what it was asked for.
struct recording_transport {
  message_id seen;
  static peer_index self() { return 2; }
  static std::uint32_t size() { return 5; }
  operation send(peer_index, const message_id& id, std::span<const std::byte>) {
    seen = id;
    return 7;
  }
  static operation receive(peer_index from, const message_id&, std::span<std::byte>) { return from; }
  result<std::size_t> wait(operation op, time_point) const { return static_cast<std::size_t>(op + seen.step); }
  static bool done(operation op) { return op == 7; }
  static bool wait_any(std::span<const operation> ops, time_point) { return ops.size() == 2; }
  static traffic stats() { return {.bytes_sent = 9}; }
};
static_assert(Transport<recording_transport>);
static_assert(std::convertible_to<recording_transport, any_transport>);
static_assert(!std::convertible_to<int, any_transport>);

}  // namespace

TEST_CASE("any transport: forwards every call to the one it holds, also after a move", "[net][fast]") {
  any_transport first{recording_transport{}};
  any_transport any = std::move(first);
  CHECK(any.self() == 2);
  CHECK(any.size() == 5);
  CHECK(any.send(1, {.step = 30}, {}) == 7);
  CHECK(any.receive(4, {}, {}) == 4);
  CHECK(*any.wait(12, no_deadline) == 42);
  CHECK(any.done(7));
  CHECK_FALSE(any.done(8));
  CHECK(any.wait_any(std::array<operation, 2>{8, 9}, no_deadline));
  CHECK_FALSE(any.wait_any({}, no_deadline));
  CHECK(any.stats().bytes_sent == 9);
}

TEST_CASE("solo transport: whoever is alone is told so", "[net][fast]") {
  any_transport alone;
  CHECK(alone.size() == 1);
  CHECK(alone.wait(alone.send(0, {}, {}), no_deadline).error().code == errc::peer_lost);
}
