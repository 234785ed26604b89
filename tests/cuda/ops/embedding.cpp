// SPDX-License-Identifier: Apache-2.0
#include <causeway/cuda/ops/embedding.hpp>

#include <causeway/kernels/embedding.hpp>

#include "cuda/body_support.hpp"
#include "cuda/device_functions.hpp"
#include "support/catch.hpp"

#include <cstdint>
#include <vector>

TEST_CASE("cuda embedding: the device's gradient is the CPU's to the bit", "[cuda][gpu][fast]") {
  constexpr std::int64_t count = 20'000, columns = 96, vocabulary = 1000;
  causeway::rng draw{5};
  std::vector<std::int32_t> tokens(count);
  for (auto& t : tokens) t = static_cast<std::int32_t>(draw.below(1 + draw.below(vocabulary)));  // frequent and rare ones
  const auto dx = causeway_test::numbers(count * columns, 6);
  const auto got = causeway_test::embedding_gradient_on_device(tokens, dx, columns, vocabulary);
  if (!got) {
    CHECK(got.error().code == causeway::errc::unsupported);
    WARN("not compared: " << got.error().text());
    return;
  }
  causeway::thread_pool pool{2};
  causeway::scratch memory;
  std::vector<float> expected(vocabulary * columns);
  causeway::kernels::embedding_backward(pool, memory, tokens.data(), dx.data(), expected.data(), nullptr, 1, count, columns,
                                        vocabulary);
  CHECK(causeway_test::differing(got.value(), expected) == 0);
}
