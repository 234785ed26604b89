// SPDX-License-Identifier: Apache-2.0
#include <causeway/compress/top_k.hpp>

#include "cuda/body_support.hpp"
#include "cuda/device_functions.hpp"
#include "support/catch.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

TEST_CASE("cuda top-k: the device selects and writes what the CPU does", "[cuda][gpu][fast]") {
  using namespace causeway;
  thread_pool pool{2};
  const std::vector<compress::matrix_range> matrices{{0, 640, 768}, {640 * 768, 100, 30}};
  const std::size_t n = 640 * 768 + 100 * 30 + 1000;
  const compress::message_context ctx{.pool = pool, .matrices = matrices};
  const compress::top_k choice{{}};
  const auto row = causeway_test::numbers(n, 1);
  std::vector<std::uint32_t> kept(choice.most_kept(ctx, n)), expected;
  std::vector<std::byte> bytes(choice.most_bytes(ctx, n)), expected_bytes(bytes.size());
  const auto done = causeway_test::select_on_device(choice, ctx, row, kept, bytes);
  if (!done) {
    CHECK(done.error().code == errc::unsupported);
    WARN("not compared: " << done.error().text());
    return;
  }
  choice.select(ctx, row, expected, expected_bytes);
  CHECK(kept == expected);
  CHECK(bytes == expected_bytes);
}
