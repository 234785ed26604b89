// SPDX-License-Identifier: Apache-2.0
#include <causeway/cuda/bodies/dropout_body.hpp>

#include <causeway/core/thread_pool.hpp>
#include <causeway/tensor/dtype.hpp>

#include "cuda/body_support.hpp"
#include "support/catch.hpp"

#include <cstdint>
#include <vector>

namespace {

using namespace causeway;

template <class T>
std::size_t differing_from_cpu(std::int64_t count, float rate) {
  const std::uint64_t seed = 0x123456789ULL, stream = 0xABCDEF0123ULL;
  const auto x = causeway_test::numbers<T>(count, 3);
  auto expected = x, got = x;
  thread_pool pool{1};
  kernels::dropout_apply(pool, expected.data(), count, rate, seed, stream);
  const cuda::dropout_body<T> body{got.data(), count, rate, seed, stream};
  for (std::int64_t i = 0; i < body.counters(); ++i) body(i);
  return causeway_test::differing(got, expected);
}

}  // namespace

TEST_CASE("cuda dropout: the CPU's masks and bits, for any length", "[cuda][fast]") {
  for (const std::int64_t count : {1, 15, 17, 63, 64, 65, 1000, 4096}) {
    CAPTURE(count);
    CHECK(differing_from_cpu<float>(count, 0.1F) == 0);
    CHECK(differing_from_cpu<bf16>(count, 0.5F) == 0);
  }
}
