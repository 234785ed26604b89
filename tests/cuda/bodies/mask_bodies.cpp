// SPDX-License-Identifier: Apache-2.0
#include <causeway/cuda/bodies/mask_bodies.hpp>

#include "cuda/body_support.hpp"
#include "cuda/thread_group.hpp"
#include "support/catch.hpp"

#include <cstdint>
#include <vector>

namespace {

using namespace causeway;

/// What mask.hpp does.
std::vector<std::uint32_t> list_here(std::size_t n, const compress::permuted_part& part, int threads) {
  std::vector<std::uint32_t> bits((n + 31) / 32), kept(part.end - part.begin);
  const auto words = static_cast<std::int64_t>(bits.size()), tiles = cuda::mask_tiles(words);
  std::vector<std::int32_t> offsets(static_cast<std::size_t>(tiles));
  const cuda::mask_mark_body mark{compress::detail::seeded_permutation{n, part.seed}, part.begin, bits.data()};
  for (std::size_t i = 0; i < kept.size(); ++i) mark(static_cast<std::int64_t>(i));
  causeway_test::with_group(threads, [&](auto& g) {
    for (std::int64_t tile = 0; tile < tiles; ++tile) {
      cuda::mask_count_body{bits.data(), words, offsets.data()}.run<1>(g, tile);
    }
    g.sync();
    cuda::mask_offset_body{offsets.data(), tiles}.run<1>(g, 0);
    g.sync();
    for (std::int64_t tile = 0; tile < tiles; ++tile) {
      cuda::mask_list_body{bits.data(), words, offsets.data(), kept.data()}.run<1>(g, tile);
    }
  });
  return kept;
}

}  // namespace

TEST_CASE("cuda mask: the coordinates are the CPU's, in all orders of rounds", "[cuda][fast]") {
  thread_pool pool{1};
  for (const auto order :
       {compress::mask_order::independent, compress::mask_order::sequential, compress::mask_order::partitions}) {
    const compress::shared_mask mask{{.share = 0.07, .order = order, .seed = 5}};
    for (const std::size_t n : {1U, 33U, 150'000U}) {
      for (const std::uint64_t round : {0U, 3U, 17U}) {
        const compress::message_context ctx{.pool = pool, .seed = 900 + round, .round = round};
        std::vector<std::uint32_t> expected;
        mask.select(ctx, std::vector<float>(n), expected, {});
        CHECK(list_here(n, mask.part_of(ctx, n), 1) == expected);
        CHECK(list_here(n, mask.part_of(ctx, n), 3) == expected);
      }
    }
  }
}

TEST_CASE("cuda mask: chosen values are gathered, and added with one rounding an operation", "[cuda][fast]") {
  const auto row = causeway_test::numbers(100, 1);
  const std::vector<std::uint32_t> kept{3, 4, 50, 99};
  std::vector<float> chosen(4), sum = causeway_test::numbers(100, 2), expected = sum;
  for (std::int64_t i = 0; i < 4; ++i) {
    cuda::gather_body{row.data(), kept.data(), chosen.data()}(i);
    cuda::scatter_add_body{chosen.data(), kept.data(), sum.data(), 0.3F}(i);
  }
  for (const std::uint32_t at : kept) {
    const volatile float product = row[at] * 0.3F;
    expected[at] += product;
  }
  CHECK(causeway_test::differing(sum, expected) == 0);
}
