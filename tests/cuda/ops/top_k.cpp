// SPDX-License-Identifier: Apache-2.0
#include <causeway/cuda/ops/top_k.hpp>

#include "cuda/body_support.hpp"
#include "cuda/host_queue.hpp"
#include "support/catch.hpp"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

TEST_CASE("cuda top-k: a queue selects, writes and reads what the CPU does", "[cuda][fast]") {
  using namespace causeway;
  thread_pool pool{2};
  const std::vector<compress::matrix_range> matrices{{0, 640, 768}, {640 * 768, 100, 30}};
  const std::size_t n = 640 * 768 + 100 * 30 + 1000;
  const compress::message_context ctx{.pool = pool, .matrices = matrices};
  const compress::top_k choice{{}};
  const auto row = causeway_test::numbers(n, 1);
  causeway_test::host_queue queue{std::make_shared<causeway_test::queue_report>()};

  const std::size_t bytes = choice.most_bytes(ctx, n);
  std::vector<std::uint32_t> kept(choice.most_kept(ctx, n)), words(cuda::index_words(bytes), 0xFFFFFFFFU), expected;
  REQUIRE(cuda::select(queue, choice, ctx, row.data(), n, kept.data(), words.data()));
  std::vector<std::byte> expected_bytes(words.size() * 4);
  choice.select(ctx, row, expected, expected_bytes);
  CHECK(kept == expected);
  CHECK(std::memcmp(words.data(), expected_bytes.data(), words.size() * 4) == 0);

  std::uint32_t found = 0;
  std::vector<std::uint32_t> read(kept.size());
  REQUIRE(cuda::read_indices(queue, choice, ctx, words.data(), n, read.data(), &found));
  CHECK(found == 0);
  CHECK(read == expected);
}
