// SPDX-License-Identifier: Apache-2.0
#include <causeway/cuda/ops/sparse.hpp>

#include "cuda/body_support.hpp"
#include "cuda/host_queue.hpp"
#include "cuda/sparse_case.hpp"
#include "support/catch.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

using namespace causeway;
using namespace causeway_test;
using namespace causeway_test::sparse_case;

namespace {

/// What the host knows of a message without the queue.
template <class Choice>
std::size_t seed_bytes(const Choice&) {
  return 0;
}
std::size_t seed_bytes(const compress::random_k&) { return 8; }
template <class Inner>
std::size_t seed_bytes(const compress::stacked<compress::random_k, Inner>&) {
  return 8;
}

}  // namespace

TEST_CASE("cuda sparse: messages and what they leave behind have the CPU's bits, and only the messages cross",
          "[cuda][fast]") {
  thread_pool pool{1};
  const auto ctx = context(pool);
  const auto x = numbers(n, 7);
  for_messages([&](const auto& how) {
    INFO(std::string{how.name});
    const auto report = std::make_shared<queue_report>();
    host_queue queue{report};
    cuda::sparse_messages<host_queue> messages;
    const auto told = cuda::to_wire(how);
    std::vector<std::byte> bytes(how.most_bytes(ctx, n)), expected(bytes.size());
    how.encode(ctx, x, expected);
    std::vector<float> left(n, 5.0F), expected_left(n);
    REQUIRE(compress::residual_of(how, ctx, x, expected, expected_left));

    REQUIRE(messages.encode(queue, told, ctx, x.data(), n, bytes.data(), left.data()));
    CHECK(bytes == expected);
    CHECK(differing(left, expected_left) == 0);
    const std::size_t crossing = bytes.size() - seed_bytes(how.choice());
    CHECK(report->out == crossing);

    bytes.assign(bytes.size(), std::byte{1});
    REQUIRE(messages.encode(queue, told, ctx, x.data(), n, bytes.data(), nullptr));
    CHECK(bytes == expected);

    const std::size_t in = report->in, out = report->out;
    auto sum = x;
    const auto found = messages.decode_add(queue, told, ctx, bytes, sum.data(), n, 0.25F, nullptr);
    REQUIRE(found);
    CHECK(*found == 0);
    CHECK(report->in - in == crossing + 4);
    CHECK(report->out - out == 4);
    auto expected_sum = x;
    REQUIRE(how.decode_add(ctx, bytes, expected_sum, 0.25F, {}));
    CHECK(differing(sum, expected_sum) == 0);
  });
}
