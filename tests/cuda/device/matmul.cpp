// SPDX-License-Identifier: Apache-2.0
#include "cuda/device_functions.hpp"
#include "support/catch.hpp"

using causeway::errc;

TEST_CASE("cuda matmul: products and their epilogues are right, or the device is missing", "[cuda][gpu][fast]") {
  const auto list = causeway_test::compare_products();
  if (!list) {
    CHECK(list.error().code == errc::unsupported);
    WARN("not compared: " << list.error().text());
    return;
  }
  for (const auto& one : list.value()) {
    INFO(one.name << ": " << one.differing << " elements differ, the worst by " << one.distance);
    CHECK(one.distance <= 0x1p-6);
  }
}

TEST_CASE("cuda matmul: errors say what to do about them", "[cuda][fast]") {
  CHECK(causeway_test::error_of_cublas(1).code == errc::unsupported);    // not initialized: no device
  CHECK(causeway_test::error_of_cublas(3).code == errc::out_of_memory);  // allocation
  CHECK(causeway_test::error_of_cublas(7).code == errc::invalid_argument);
  CHECK(causeway_test::error_of_cublas(15).code == errc::unsupported);
  CHECK(causeway_test::error_of_cublas(13).code == errc::device_lost);  // execution failed
  CHECK(causeway_test::error_of_cublas(1).message.find("run on the CPU") != std::string::npos);
}
