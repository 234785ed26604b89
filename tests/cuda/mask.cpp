// SPDX-License-Identifier: Apache-2.0
#include <causeway/compress/mask.hpp>

#include "cuda/device_functions.hpp"
#include "support/catch.hpp"

#include <vector>

TEST_CASE("cuda mask: the device lists the coordinates that the CPU lists", "[cuda][gpu][fast]") {
  constexpr std::size_t n = 1'000'003;
  causeway::thread_pool pool{2};
  const causeway::compress::message_context ctx{.pool = pool, .seed = 12};
  const causeway::compress::shared_mask mask{{.share = 0.01}};
  const auto got = causeway_test::list_permuted_on_device(n, mask.part_of(ctx, n));
  if (!got) {
    CHECK(got.error().code == causeway::errc::unsupported);
    WARN("not compared: " << got.error().text());
    return;
  }
  std::vector<std::uint32_t> expected;
  mask.select(ctx, std::vector<float>(n), expected, {});
  CHECK(got.value() == expected);
}
