// SPDX-License-Identifier: Apache-2.0
#include <causeway/compress/transform.hpp>

#include "support/catch.hpp"

#include <causeway/compress/dct.hpp>

using namespace causeway::compress;

namespace {

struct one_way {
  static constexpr std::string_view name = "one_way";
  static constexpr bool identity = false;
  static void forward(const message_context&, std::span<const float>, std::span<float>) {}
};

}  // namespace

TEST_CASE("transforms: what is one", "[compress][fast]") {
  STATIC_REQUIRE(Transform<no_transform>);
  STATIC_REQUIRE(Transform<dct_tiles>);
  STATIC_REQUIRE_FALSE(Transform<one_way>);
  STATIC_REQUIRE(no_transform::identity);
  STATIC_REQUIRE_FALSE(dct_tiles::identity);
}
