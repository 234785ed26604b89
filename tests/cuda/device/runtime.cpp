// SPDX-License-Identifier: Apache-2.0
#include "cuda/device_functions.hpp"
#include "support/catch.hpp"

using causeway::errc;

TEST_CASE("cuda runtime: errors say what to do about them", "[cuda][fast]") {
  CHECK(causeway_test::error_of(100).code == errc::unsupported);  // no device
  CHECK(causeway_test::error_of(35).code == errc::unsupported);   // driver missing or too old
  CHECK(causeway_test::error_of(209).code == errc::unsupported);  // no code for this architecture
  CHECK(causeway_test::error_of(2).code == errc::out_of_memory);  // allocation
  CHECK(causeway_test::error_of(1).code == errc::invalid_argument);
  CHECK(causeway_test::error_of(700).code == errc::device_lost);  // illegal address: sticky
  CHECK(causeway_test::error_of(35).message.find("run on the CPU") != std::string::npos);
}

TEST_CASE("cuda runtime: a device is described, or its absence is", "[cuda][gpu][fast]") {
  const auto devices = causeway_test::devices();
  if (devices) {
    CHECK_FALSE(devices.value().empty());
    for (const auto& name : devices.value()) CHECK(name.find(" (") > 0);
  } else {
    CHECK(devices.error().code == errc::unsupported);
    WARN("no CUDA device here: " << devices.error().text());
  }
}

TEST_CASE("cuda runtime: a reservation that cannot work is an error, not an exception", "[cuda][gpu][fast]") {
  const auto reserved = causeway_test::reserve_too_much();
  REQUIRE_FALSE(reserved);
  CHECK(reserved.error().code == (causeway_test::devices() ? errc::out_of_memory : errc::unsupported));
}
