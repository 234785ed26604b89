// SPDX-License-Identifier: Apache-2.0
#include <causeway/net/operations.hpp>

#include "support/catch.hpp"

#include <cstddef>

using namespace causeway;
using namespace causeway::net;
using net::detail::no_slot;
using net::detail::operation_table;

TEST_CASE("operations: a handle names its operation until that was released, and nothing afterwards", "[net][fast]") {
  operation_table table;
  const auto first = table.start({});
  const operation handle = table.handle(first);
  CHECK(handle != 0);
  CHECK(table.find(handle) == first);
  CHECK_FALSE(table.done(handle));
  table[first].moved = 12;
  table.finish(first);
  CHECK(table.done(handle));
  CHECK(*table.release(first) == 12);
  CHECK(table.find(handle) == no_slot);
  const auto second = table.start({});
  CHECK(second == first);  // the slot is used again, under another handle
  CHECK(table.handle(second) != handle);
  CHECK(table.find(handle) == no_slot);
  CHECK(table.done(handle));
  CHECK_FALSE(table.done(table.handle(second)));
}

TEST_CASE("operations: made-up handles name nothing", "[net][fast]") {
  operation_table table;
  CHECK(table.find(0) == no_slot);
  CHECK(table.find(1) == no_slot);
  CHECK(table.find(~operation{0}) == no_slot);
  table.start({});
  CHECK(table.find(1) == no_slot);  // generation 0
}

TEST_CASE("operations: the failure is given once, by release", "[net][fast]") {
  operation_table table;
  const auto slot = table.start({.is_send = true, .peer = 3});
  int unfinished = 0;
  table.for_each_unfinished([&](const auto& op) { unfinished += op.peer == 3 ? 1 : 100; });
  CHECK(unfinished == 1);
  table.finish(slot, fail(errc::peer_lost, "peer 3", "gone"));
  table.for_each_unfinished([&](const auto&) { ++unfinished; });
  CHECK(unfinished == 1);
  CHECK(table.release(slot).error().code == errc::peer_lost);
}
