// SPDX-License-Identifier: Apache-2.0
#include <causeway/cuda/ops/mask.hpp>

#include "cuda/host_queue.hpp"
#include "support/catch.hpp"

#include <cstdint>
#include <memory>
#include <vector>

TEST_CASE("cuda mask: a queue lists the coordinates that the CPU lists", "[cuda][fast]") {
  using namespace causeway;
  thread_pool pool{2};
  causeway_test::host_queue queue{std::make_shared<causeway_test::queue_report>()};
  const compress::shared_mask mask{{.share = 0.01}};
  const compress::random_k own{{.share = 0.03}};
  for (const std::size_t n : {std::size_t{1}, std::size_t{64}, std::size_t{200'003}}) {
    const compress::message_context ctx{.pool = pool, .seed = 12, .own_seed = 13};
    std::vector<std::uint32_t> listed(mask.most_kept(ctx, n)), expected;
    REQUIRE(cuda::list_permuted(queue, n, mask.part_of(ctx, n), listed.data()));
    mask.select(ctx, std::vector<float>(n), expected, {});
    CHECK(listed == expected);

    std::vector<std::byte> seed(8);
    listed.resize(own.most_kept(ctx, n));
    REQUIRE(cuda::list_permuted(queue, n, own.part_of(ctx, 13, n), listed.data()));
    own.select(ctx, std::vector<float>(n), expected, seed);
    CHECK(listed == expected);
  }
}
