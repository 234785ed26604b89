// SPDX-License-Identifier: Apache-2.0
#include <causeway/cuda/bodies/hash_bodies.hpp>

#include <causeway/cuda/backend.hpp>

#include "cuda/body_support.hpp"
#include "cuda/host_engine.hpp"
#include "support/catch.hpp"

#include <memory>
#include <vector>

using namespace causeway;

TEST_CASE("cuda hash: the CPU's hash of a row of any length, for a few bytes across", "[cuda][fast]") {
  const auto report = std::make_shared<causeway_test::queue_report>();
  cuda::backend backend{causeway_test::engine_on_host(report)};
  thread_pool pool{1};
  for (const std::size_t n : {1U, 2U, 15U, 16U, 17U, 1000U, 16384U, 16385U, 50'001U}) {
    const auto here = causeway_test::numbers(n, n);
    const std::vector<float, source_allocator<float>> there{here.begin(), here.end(),
                                                            source_allocator<float>{backend.source()}};
    report->out = 0;
    CHECK(backend.hash(there) == kernels::row_hash(pool, here));
    CHECK(report->out == (n + 16383) / 16384 * 8);
    CHECK(backend.hash(here) == kernels::row_hash(pool, here));
  }
  CHECK(backend.hash({}) == kernels::row_hash(pool, {}));

  const std::vector<float, source_allocator<float>> row(64, 1.0F, source_allocator<float>{backend.source()});
  report->fail_at = 0;
  CHECK(backend.hash(row) != kernels::row_hash(pool, row));
  const auto lost = backend.finish();
  REQUIRE_FALSE(lost);
  CHECK(lost.error().code == errc::device_lost);
}
