// SPDX-License-Identifier: Apache-2.0
#include <causeway/compress/top_k.hpp>

#include "compress/heavy_tails.hpp"
#include "compress/message_checks.hpp"
#include "support/catch.hpp"

#include <causeway/compress/dct.hpp>
#include <causeway/compress/none.hpp>
#include <causeway/compress/sparse.hpp>

#include <algorithm>
#include <limits>
#include <numeric>

using namespace causeway;
using namespace causeway::compress;

namespace {

std::vector<std::uint32_t> selected(const top_k& sparsifier, const message_context& ctx, const std::vector<float>& x) {
  std::vector<std::uint32_t> kept;
  std::vector<std::byte> room(sparsifier.most_bytes(ctx, x.size()));
  REQUIRE(sparsifier.select(ctx, x, kept, room) == room.size());
  return kept;
}

/// What top_k must select of one run, the slow way.
std::vector<std::uint32_t> by_sorting(const std::vector<float>& x, std::size_t k) {
  std::vector<std::uint32_t> order(x.size());
  std::iota(order.begin(), order.end(), 0U);
  std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return std::abs(x[a]) > std::abs(x[b]); });
  order.resize(k);
  std::sort(order.begin(), order.end());
  return order;
}

top_k of_run(std::uint32_t k, std::uint32_t run, index_form form = index_form::packed) {
  return top_k{{.k = k, .chunks = {.run = run}, .indices = form}};
}

}  // namespace

TEST_CASE("top-k: indices of twelve bits, two in three bytes", "[compress][fast]") {
  thread_pool pool{1};
  std::vector<float> x(4096, 0.001F);
  x[0x123] = -5, x[0xABC] = 4;
  std::vector<std::uint32_t> kept;
  std::vector<std::byte> room(3);
  const message_context ctx{.pool = pool};
  REQUIRE(of_run(2, 4096).select(ctx, x, kept, room) == 3);
  CHECK(kept == std::vector<std::uint32_t>{0x123, 0xABC});
  CHECK(codec_checks::as_ints(room) == std::vector<int>{0x23, 0xC1, 0xAB});
}

TEST_CASE("top-k: the largest magnitudes, ties to the lowest index, whatever the values look like", "[compress][fast]") {
  thread_pool pool{1};
  const message_context ctx{.pool = pool};
  for (const std::uint32_t size : {1U, 2U, 50U, 64U, 128U, 129U, 1000U, 4096U, 65536U}) {
    std::vector<std::vector<float>> rows{codec_checks::values(size, size), std::vector<float>(size, 0.0F),
                                         std::vector<float>(size, -2.0F), std::vector<float>(size)};
    for (std::size_t i = 0; i < size; ++i) rows[3][i] = static_cast<float>(i % 5) - 2.0F;  // ties everywhere
    rows.emplace_back(size), rows.emplace_back(size);
    for (std::size_t i = 0; i < size; ++i) rows[4][i] = static_cast<float>(i), rows[5][i] = i % 32 == 0 ? 9.0F : 1.0F;
    for (std::size_t which = 0; which < rows.size(); ++which) {
      for (std::uint32_t k : {1U, 2U, size / 64, size / 5, size - 1, size}) {
        k = std::clamp(k, 1U, size);
        INFO(k << " of " << size << ", row " << which);
        CHECK(selected(of_run(k, size), ctx, rows[which]) == by_sorting(rows[which], k));
      }
    }
  }
}

TEST_CASE("top-k: chunks that are nothing like their neighbours are selected from exactly", "[compress][fast]") {
  thread_pool pool{1};
  const message_context ctx{.pool = pool};
  const float sizes[] = {1.0F, 1e-6F, 1e6F, 0.0F, 1.0F, 0.99F, 1e30F, 1e-40F};
  std::vector<float> x;
  std::vector<std::uint32_t> expected;
  for (std::size_t chunk = 0; chunk < 8; ++chunk) {
    auto values = codec_checks::values(1000, chunk);
    for (float& v : values) v *= sizes[chunk];
    for (const std::uint32_t i : by_sorting(values, 31)) expected.push_back(static_cast<std::uint32_t>(x.size()) + i);
    x.insert(x.end(), values.begin(), values.end());
  }
  for (const auto level : support::simd_levels()) {
    std::vector<std::uint32_t> kept;
    const top_k sparsifier = of_run(31, 1000);
    std::vector<std::byte> room(sparsifier.most_bytes(ctx, x.size()));
    sparsifier.select(ctx, x, kept, room, level);
    CHECK(kept == expected);
  }
}

TEST_CASE("top-k: NaN and infinity are selected first, for the reader to refuse", "[compress][fast]") {
  thread_pool pool{1};
  const message_context ctx{.pool = pool};
  auto x = codec_checks::values(4096);
  x[77] = std::numeric_limits<float>::infinity();
  x[99] = -std::numeric_limits<float>::quiet_NaN();
  CHECK(selected(of_run(2, 4096), ctx, x) == std::vector<std::uint32_t>{77, 99});
}

TEST_CASE("top-k: tiles of matrices compete within themselves", "[compress][fast]") {
  thread_pool pool{1};
  const std::vector<matrix_range> matrices{{.offset = 0, .rows = 64, .columns = 128}};
  const message_context ctx{.pool = pool, .matrices = matrices};
  std::vector<float> x(64 * 128, 0.0F);
  for (std::size_t r = 0; r < 64; ++r) x[r * 128 + 10] = 100.0F;  // all in the left tile
  x[3 * 128 + 64] = 0.5F, x[63 * 128 + 127] = -0.25F;             // small, but the right tile's largest
  const auto kept = selected(top_k{{.k = 2}}, ctx, x);
  CHECK(kept == std::vector<std::uint32_t>{10, 138, 3 * 128 + 64, 63 * 128 + 127});
}

TEST_CASE("top-k: every chunk keeps k, and a smaller one all it has", "[compress][fast]") {
  const top_k k64, k32{{.k = 32}};
  CHECK(k64.kept_of(4096) == 64);
  CHECK(k64.kept_of(65) == 64);
  CHECK(k64.kept_of(64) == 64);
  CHECK(k64.kept_of(1) == 1);
  CHECK(k32.kept_of(4096) == 32);
  CHECK(k32.kept_of(64) == 32);
}

TEST_CASE("top-k: sizes follow the formulas", "[compress][fast]") {
  thread_pool pool{1};
  const std::vector<matrix_range> matrices{{.offset = 0, .rows = 1024, .columns = 1024},
                                           {.offset = 1024 * 1024, .columns = 640}};
  const message_context ctx{.pool = pool, .matrices = std::span{matrices}.first(1)},
      more{.pool = pool, .matrices = matrices};
  const std::size_t n = 1024 * 1024;
  CHECK(top_k{{.indices = index_form::packed}}.most_bytes(ctx, n) == 256 * 64 * 12 / 8);
  CHECK(top_k{{.indices = index_form::bitmask}}.most_bytes(ctx, n) == n / 8);
  CHECK(top_k{}.most_bytes(ctx, n) == 256 * 64 * 8 / 8);
  CHECK(top_k{}.most_kept(ctx, n) == n / 64);
  CHECK(top_k{{.k = 32}}.most_kept(more, n + 640) == n / 128 + 320);
  CHECK(top_k{{.indices = index_form::packed}}.most_bytes(more, n + 640) == 256 * 64 * 12 / 8 + 640 * 6 / 8);
}

TEST_CASE("top-k: neither thread count nor instruction set change a bit", "[compress][fast]") {
  thread_pool alone{1}, three{3};
  const auto form = GENERATE(index_form::packed, index_form::bitmask, index_form::elias_fano);
  const std::vector<matrix_range> matrices{{.offset = 10, .rows = 350, .columns = 300}};
  for (const chunking& chunks : {chunking{}, chunking{.run = 1000}, chunking{.run = 63}}) {
    const top_k sparsifier{{.k = 50, .chunks = chunks, .indices = form}};
    const message_context one{.pool = alone, .matrices = matrices}, many{.pool = three, .matrices = matrices};
    const auto x = codec_checks::values(350 * 300 + 40000);
    std::vector<std::uint32_t> a, b;
    std::vector<std::byte> room_a(sparsifier.most_bytes(one, x.size())), room_b = room_a;
    REQUIRE(sparsifier.select(one, x, a, room_a) == room_a.size());
    REQUIRE(sparsifier.select(many, x, b, room_b) == room_a.size());
    CHECK(a == b);
    CHECK(room_a == room_b);
    REQUIRE(sparsifier.read(many, room_a, x.size(), b));
    CHECK(a == b);
    for (const auto level : support::simd_levels()) {
      INFO(to_string(level));
      REQUIRE(sparsifier.select(one, x, b, room_b, level) == room_a.size());
      CHECK(a == b);
      CHECK(room_a == room_b);
    }
  }
}

TEST_CASE("top-k: indices no encoder writes are refused", "[compress][fast]") {
  thread_pool pool{1};
  const message_context ctx{.pool = pool};
  const top_k sparsifier = of_run(3, 100);  // three indices of seven bits, three bits of padding
  std::vector<std::uint32_t> kept;
  const auto code = [&](const std::vector<std::uint32_t>& indices, unsigned last_byte = 0) {
    std::vector<std::byte> bytes(3);
    bit_writer out{bytes};
    for (const std::uint32_t index : indices) out.put(index, 7);
    out.finish();
    bytes[2] |= static_cast<std::byte>(last_byte);
    const auto outcome = sparsifier.read(ctx, bytes, 100, kept);
    return outcome ? errc{} : outcome.error().code;
  };
  CHECK(code({1, 2, 99}) == errc{});
  CHECK(code({1, 1, 99}) == errc::corrupt);
  CHECK(code({2, 1, 99}) == errc::corrupt);
  CHECK(code({1, 2, 100}) == errc::corrupt);
  CHECK(code({1, 2, 99}, 0x80) == errc::corrupt);
  CHECK(sparsifier.read(ctx, std::vector<std::byte>(2), 100, kept).error().code == errc::protocol);
}

TEST_CASE("top-k: contracts by the share that a chunk keeps, whatever the tails, and no factor is smaller",
          "[compress][fast]") {
  thread_pool pool{1};
  const message_context ctx{.pool = pool};
  for (const std::uint32_t k : {1U, 10U, 100U}) {
    INFO(k << " of 200");
    const double stated = 1 - k / 200.0;
    const sparse<no_transform, top_k, none> codec{{}, of_run(k, 200)};
    CHECK(heavy_tails::worst_lost(message_checks::trip_of(codec, ctx), {1, 2, 50, 1000, 30000}) <= stated);
    const std::vector<float> alike(1000, 0.7F);
    CHECK(heavy_tails::lost(alike, message_checks::trip_of(codec, ctx)(alike)) == Approx(stated));
  }
}

TEST_CASE("top-k: contracts by that share of a transform's coefficients, too", "[compress][fast]") {
  thread_pool pool{1};
  const std::vector<matrix_range> matrices{{.offset = 0, .rows = 128, .columns = 192}};
  const sparse<dct_tiles, top_k, none> codec{{}, top_k{{.k = 64}}};
  const auto trip = message_checks::trip_of(codec, {.pool = pool, .matrices = matrices});
  CHECK(heavy_tails::worst_lost(trip, {128 * 192}) <= 1 - 64 / 4096.0);
}

TEST_CASE("top-k: options that cannot work are named", "[compress][fast]") {
  CHECK(validate(top_k_options{}));
  CHECK(validate(top_k_options{.k = 0}).error().code == errc::invalid_argument);
  CHECK_FALSE(validate(top_k_options{.chunks = {.side = 65}}));
  CHECK_FALSE(validate(top_k_options{.indices = static_cast<index_form>(9)}));
}
