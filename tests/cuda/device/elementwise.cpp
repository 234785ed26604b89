// SPDX-License-Identifier: Apache-2.0
#include <causeway/core/rng.hpp>
#include <causeway/tensor/dtype.hpp>

#include "cuda/device_functions.hpp"
#include "support/catch.hpp"

#include <bit>
#include <cstdint>
#include <limits>
#include <vector>

namespace {

// Every kind of float: ordinary, tiny, huge, ties between two halves, infinities; NaN is checked apart.
std::vector<float> sample() {
  std::vector<float> values{
      0.0F,   -0.0F,    1.0F,     1.0F + 0x1p-8F, 1.0F + 0x1p-11F, 65504.0F, 65520.0F,
      -1e-8F, 0x1p-24F, 0x1p-25F, 0x1.8p-25F,     3.4e38F,         1e-40F,   std::numeric_limits<float>::infinity()};
  causeway::rng draw{11};
  while (values.size() < 2'000'003) {  // more than one element per thread, and not a multiple of anything
    const float value = std::bit_cast<float>(static_cast<std::uint32_t>(draw.next()));
    if (value == value) values.push_back(value);
  }
  return values;
}

template <class Half>
void compare_with_host() {
  const std::vector<float> values = sample();
  const auto halves = causeway_test::convert_on_device<Half>(values);
  if (!halves) {
    CHECK(halves.error().code == causeway::errc::unsupported);
    WARN("not compared: " << halves.error().text());
    return;
  }
  std::size_t different = 0;
  for (std::size_t i = 0; i < values.size(); ++i) different += halves.value()[i] == Half{values[i]} ? 0U : 1U;
  CHECK(different == 0);

  const auto back = causeway_test::convert_back_on_device<Half>(halves.value());
  REQUIRE(back);
  for (std::size_t i = 0; i < values.size(); ++i) {
    different +=
        std::bit_cast<std::uint32_t>(back.value()[i]) == std::bit_cast<std::uint32_t>(static_cast<float>(Half{values[i]}))
            ? 0U
            : 1U;
  }
  CHECK(different == 0);
}

}  // namespace

TEST_CASE("cuda elementwise: the device rounds to bf16 as the host does", "[cuda][gpu][fast]") {
  compare_with_host<causeway::bf16>();
}

TEST_CASE("cuda elementwise: the device rounds to f16 as the host does", "[cuda][gpu][fast]") {
  compare_with_host<causeway::f16>();
}

TEST_CASE("cuda elementwise: nothing to do is fine", "[cuda][gpu][fast]") {
  const auto none = causeway_test::convert_on_device<causeway::bf16>({});
  if (none) {
    CHECK(none.value().empty());
  } else {
    CHECK(none.error().code == causeway::errc::unsupported);
  }
}

namespace {

void check_all(const causeway::result<causeway_test::comparisons>& list, double most, std::size_t most_different) {
  if (!list) {
    CHECK(list.error().code == causeway::errc::unsupported);
    WARN("not compared: " << list.error().text());
    return;
  }
  for (const auto& one : list.value()) {
    INFO(one.name << ": " << one.differing << " elements differ, the worst by " << one.distance);
    CHECK(one.distance <= most);
    CHECK(one.differing <= most_different);
  }
}

}  // namespace

TEST_CASE("cuda elementwise: updates have the same bits on the device and the host", "[cuda][gpu][fast]") {
  check_all(causeway_test::compare_exact_bodies(), 0, 0);
}

TEST_CASE("cuda elementwise: activations agree on the device and the host to rounding", "[cuda][gpu][fast]") {
  check_all(causeway_test::compare_inexact_bodies(), 0x1p-7, 1U << 20U);
}
