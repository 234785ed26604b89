// SPDX-License-Identifier: Apache-2.0
#include <causeway/cuda/ops/reductions.hpp>

#include "cuda/device_functions.hpp"
#include "support/catch.hpp"

TEST_CASE("cuda reductions: norms, losses and sums agree on the device and the host", "[cuda][gpu][fast]") {
  const auto list = causeway_test::compare_reductions();
  if (!list) {
    CHECK(list.error().code == causeway::errc::unsupported);
    WARN("not compared: " << list.error().text());
    return;
  }
  for (const auto& one : list.value()) {
    INFO(one.name << ": " << one.differing << " elements differ, the worst by " << one.distance);
    CHECK(one.distance <= 0x1p-7);
  }
}

TEST_CASE("cuda reductions: the same kernels give the same bits again", "[cuda][gpu][fast]") {
  const auto first = causeway_test::compare_reductions(), second = causeway_test::compare_reductions();
  REQUIRE(first.has_value() == second.has_value());
  if (!first) {
    WARN("not run: " << first.error().text());
    return;
  }
  for (std::size_t i = 0; i < first.value().size(); ++i) {
    CHECK(first.value()[i].differing == second.value()[i].differing);
    CHECK(first.value()[i].distance == second.value()[i].distance);
  }
}
