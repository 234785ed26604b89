// SPDX-License-Identifier: Apache-2.0
#include <causeway/net/endpoint.hpp>

#include "support/catch.hpp"

#include <string>

using namespace causeway;
using namespace causeway::net;

TEST_CASE("endpoint: addresses are read as people write them", "[net][fast]") {
  CHECK(*parse_endpoint("127.0.0.1:5100") == endpoint{"127.0.0.1", 5100});
  CHECK(*parse_endpoint("trainer.example.org:0") == endpoint{"trainer.example.org", 0});
  CHECK(*parse_endpoint("[::1]:65535") == endpoint{"::1", 65535});
  CHECK(parse_endpoint("[::1]:65535")->text() == "[::1]:65535");
  CHECK(parse_endpoint("host:80")->text() == "host:80");
}

TEST_CASE("endpoint: what cannot be an address is refused with the remedy", "[net][fast]") {
  for (const char* text : {"", "host", ":80", "host:", "host:65536", "host:-1", "host:8x", "::1:80", "[]:80", "host: 80"}) {
    const auto parsed = parse_endpoint(text);
    CAPTURE(text);
    REQUIRE_FALSE(parsed);
    CHECK(parsed.error().message.find("host:port") != std::string::npos);
  }
  CHECK_FALSE(parse_endpoint(std::string(300, 'a') + ":80"));
}
