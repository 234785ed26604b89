// SPDX-License-Identifier: Apache-2.0
#include "cuda/dct_case.hpp"
#include "support/catch.hpp"

#include <vector>

using namespace causeway;

TEST_CASE("cuda DCT: the device has the CPU's bits both ways", "[cuda][gpu][fast]") {
  thread_pool pool{1};
  for (const auto& c : causeway_test::dct_cases()) {
    CAPTURE(c.n);
    const compress::message_context ctx{.pool = pool, .matrices = c.matrices};
    const auto x = causeway_test::numbers(c.n, 3);
    const auto got = causeway_test::dct_on_device(c, x);
    if (!got) {
      CHECK(got.error().code == errc::unsupported);
      WARN("not compared: " << got.error().text());
      return;
    }
    std::vector<float> expected(c.n);
    c.how.forward(ctx, x, expected);
    CHECK(causeway_test::differing(got.value().coefficients, expected) == 0);
    c.how.inverse(ctx, expected);
    CHECK(causeway_test::differing(got.value().back, expected) == 0);
  }
}
