// SPDX-License-Identifier: Apache-2.0
#include <causeway/net/asio_listener.hpp>

#include "support/catch.hpp"
#include "support/tcp_peers.hpp"

#include <string>

using namespace support;

TEST_CASE("listener: port 0 gives a free port, and a taken one is refused with the remedy", "[net][fast]") {
  const auto first = open_listener({});
  REQUIRE(first);
  CHECK(first->address().port != 0);
  const auto second = open_listener(first->address());
  REQUIRE_FALSE(second);
  CHECK(second.error().code == errc::address_in_use);
  CHECK(second.error().message ==
        "port " + std::to_string(first->address().port) +
            " is taken by another program; choose another with --listen, or port 0 for any free one");
}

TEST_CASE("listener: warns about anything but loopback", "[net][fast]") {
  const log_lines log;
  REQUIRE(open_listener({"127.0.0.1", 0}, log.sink()));
  REQUIRE(open_listener({"localhost", 0}, log.sink()));
  CHECK(log.text().empty());
  REQUIRE(open_listener({"0.0.0.0", 0}, log.sink()));
  CHECK(log.text().find("not encrypted") != std::string::npos);
}

TEST_CASE("listener: an address that is not ours is an error", "[net][fast]") {
  CHECK_FALSE(open_listener({"203.0.113.77", 0}));  // reserved for documentation
  CHECK(open_listener({"not a host name", 0}).error().code == errc::invalid_argument);
}
