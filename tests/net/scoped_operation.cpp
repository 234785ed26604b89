// SPDX-License-Identifier: Apache-2.0
#include <causeway/net/scoped_operation.hpp>

#include <causeway/net/memory_transport.hpp>

#include "support/catch.hpp"

#include <array>
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

using namespace causeway;
using namespace causeway::net;

namespace {

const message_id talk{.channel = 1};

/// Counts what is cancelled, which is to be waited for with a deadline in the past.
struct counting_transport {
  int cancelled = 0;
  int waited = 0;
  result<std::size_t> wait(operation op, time_point deadline) {
    ++(deadline == time_point{} ? cancelled : waited);
    return std::size_t{op};
  }
  [[nodiscard]] static bool done(operation op) { return op % 2 == 0; }
};

}  // namespace

TEST_CASE("scoped operation: one that was not waited for is cancelled when it goes, once", "[net][fast]") {
  counting_transport on;
  {
    scoped_operation op{on, 7};
    CHECK(op.started());
    CHECK_FALSE(op.done());
  }
  CHECK(on.cancelled == 1);
  {
    scoped_operation op{on, 8};
    CHECK(op.done());
    CHECK(*op.wait(no_deadline) == 8);
    CHECK_FALSE(op.started());
    CHECK(op.done());
    CHECK(*op.wait(no_deadline) == 0);
    op.cancel();
  }
  CHECK(on.waited == 1);
  CHECK(on.cancelled == 1);
}

TEST_CASE("scoped operation: it moves; what it replaces is cancelled", "[net][fast]") {
  counting_transport on;
  scoped_operation first{on, 1};
  scoped_operation second{std::move(first)};
  CHECK(on.cancelled == 0);
  CHECK(second.started());
  second = scoped_operation{on, 3};
  CHECK(on.cancelled == 1);
  second = {};
  CHECK(on.cancelled == 2);
  std::vector<scoped_operation> many;
  for (operation op = 1; op <= 20; ++op) many.emplace_back(on, op);
  CHECK(on.cancelled == 2);
  many.clear();
  CHECK(on.cancelled == 22);
}

TEST_CASE("scoped operation: the transport no longer writes to a buffer whose receive has gone", "[net][fast]") {
  memory_network network{2};
  auto a = network.transport(0);
  auto b = network.transport(1);
  std::array<std::byte, 1> buffer{};
  const std::array<std::byte, 1> message{std::byte{9}};
  { const scoped_operation receive{b, b.receive(0, talk, buffer)}; }
  scoped_operation sent{a, a.send(1, talk, message)};
  CHECK(*sent.wait(no_deadline) == 1);
  CHECK(buffer[0] == std::byte{0});
  scoped_operation receive{b, b.receive(0, talk, buffer)};
  CHECK(*receive.wait(no_deadline) == 1);
  CHECK(buffer[0] == std::byte{9});
}
