// SPDX-License-Identifier: Apache-2.0
#include <causeway/cuda/ops/dct.hpp>

#include "cuda/dct_case.hpp"
#include "cuda/host_queue.hpp"
#include "support/catch.hpp"

#include <memory>
#include <vector>

using namespace causeway;

TEST_CASE("cuda DCT: a queue has the CPU's bits both ways, and takes each basis in once", "[cuda][fast]") {
  thread_pool pool{1};
  const auto report = std::make_shared<causeway_test::queue_report>();
  causeway_test::host_queue queue{report};
  cuda::dct<causeway_test::host_queue> transform;
  for (int again = 0; again < 2; ++again) {
    const std::size_t before = report->in;
    for (const auto& c : causeway_test::dct_cases()) {
      CAPTURE(c.n);
      const compress::message_context ctx{.pool = pool, .matrices = c.matrices};
      const auto x = causeway_test::numbers(c.n, 3);
      std::vector<float> got(c.n), expected(c.n);
      REQUIRE(transform.forward(queue, c.how, c.matrices, x.data(), got.data(), c.n));
      c.how.forward(ctx, x, expected);
      CHECK(causeway_test::differing(got, expected) == 0);
      REQUIRE(transform.inverse(queue, c.how, c.matrices, got.data(), c.n));
      c.how.inverse(ctx, expected);
      CHECK(causeway_test::differing(got, expected) == 0);
    }
    CHECK((report->in == before) == (again == 1));
  }
}
