// SPDX-License-Identifier: Apache-2.0
#include <causeway/compress/sparsifier.hpp>

#include "compress/message_checks.hpp"
#include "support/catch.hpp"

#include <causeway/compress/mask.hpp>
#include <causeway/compress/stacked.hpp>
#include <causeway/compress/threshold.hpp>
#include <causeway/compress/top_k.hpp>

#include <set>

using namespace causeway;
using namespace causeway::compress;

namespace {

struct only_a_name {
  static constexpr std::string_view name = "x";
};

}  // namespace

TEST_CASE("sparsifiers: a coordinate set lists what a test accepts, in order, for every thread count", "[compress][fast]") {
  for (const unsigned threads : {1U, 3U}) {
    thread_pool pool{threads};
    for (const std::size_t n : {0U, 1U, 63U, 64U, 65U, 16384U, 16385U, 50001U}) {
      compress::detail::coordinate_set set{n};
      set.fill(pool, [](std::size_t i) { return i % 7 == 3; });
      std::vector<std::uint32_t> kept(5, 1), expected;
      for (std::uint32_t i = 3; i < n; i += 7) expected.push_back(i);
      set.list(pool, kept);
      CHECK(kept == expected);
    }
  }
}

TEST_CASE("sparsifiers: magnitudes order as integers", "[compress][fast]") {
  using compress::detail::magnitude_bits;
  const float infinity = std::numeric_limits<float>::infinity();
  CHECK(magnitude_bits(-0.0F) == 0);
  CHECK(magnitude_bits(-3.0F) == magnitude_bits(3.0F));
  CHECK(magnitude_bits(1e-40F) > 0);
  CHECK(magnitude_bits(1.5F) > magnitude_bits(-1.25F));
  CHECK(magnitude_bits(infinity) > magnitude_bits(3.4e38F));
  CHECK(magnitude_bits(-std::numeric_limits<float>::quiet_NaN()) > magnitude_bits(infinity));
}

TEST_CASE("sparsifiers: something that only looks like one is none", "[compress][fast]") {
  STATIC_REQUIRE_FALSE(Sparsifier<only_a_name>);
  STATIC_REQUIRE_FALSE(Sparsifier<int>);
}

TEMPLATE_TEST_CASE("sparsifiers: a reader finds the coordinates that were selected", "[compress][fast]", top_k, shared_mask,
                   random_k, threshold, significant, (stacked<shared_mask, top_k>), (stacked<top_k, threshold>),
                   (stacked<random_k, stacked<top_k, random_k>>)) {
  const TestType sparsifier{};
  for (const unsigned threads : {1U, 3U}) {
    thread_pool pool{threads};
    for (const std::size_t n :
         {std::size_t{0}, std::size_t{1}, std::size_t{70}, message_checks::row_size, std::size_t{70001}}) {
      INFO(TestType::name << ", " << n << " values, " << threads << " threads");
      message_context ctx{.pool = pool, .seed = 5, .own_seed = 6, .round = 2};
      if (n == message_checks::row_size) ctx.matrices = message_checks::matrices;
      const auto x = codec_checks::values(n), reference = codec_checks::values(n, 9);
      ctx.reference = reference;
      std::vector<std::uint32_t> sent(3), found(7);
      std::vector<std::byte> room(sparsifier.most_bytes(ctx, n));
      const std::size_t used = sparsifier.select(ctx, x, sent, room);
      REQUIRE(used <= room.size());
      CHECK(sent.size() <= sparsifier.most_kept(ctx, n));
      if (TestType::exact_count) CHECK(sent.size() == sparsifier.most_kept(ctx, n));
      ctx.reference = {};  // which a reader must not need
      const auto outcome = sparsifier.read(ctx, std::span{room}.first(used), n, found);
      REQUIRE(outcome);
      CHECK(*outcome == used);
      CHECK(found == sent);
      const std::set<std::uint32_t> unique(sent.begin(), sent.end());
      CHECK(unique.size() == sent.size());
      if (!unique.empty()) CHECK(*unique.rbegin() < n);
    }
  }
}
