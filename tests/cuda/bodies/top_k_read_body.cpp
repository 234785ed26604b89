// SPDX-License-Identifier: Apache-2.0
#include <causeway/cuda/bodies/top_k_read_body.hpp>

#include <causeway/compress/top_k.hpp>
#include <causeway/core/rng.hpp>

#include "cuda/body_support.hpp"
#include "cuda/thread_group.hpp"
#include "support/catch.hpp"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

namespace {

using namespace causeway;
using compress::index_form;

struct reading {
  std::vector<std::uint32_t> kept;
  bool good = true;
};

reading on_cpu(const compress::top_k& choice, const compress::message_context& ctx, const std::vector<std::byte>& bytes,
               std::size_t n) {
  reading r;
  r.good = choice.read(ctx, bytes, n, r.kept).has_value();
  return r;
}

/// What top_k.hpp does. Behind the bytes lies what a queue's memory may hold.
reading here(const compress::top_k& choice, const compress::message_context& ctx, const std::vector<std::byte>& bytes,
             std::size_t n, int threads) {
  reading r;
  r.kept.resize(choice.most_kept(ctx, n));
  std::vector<std::uint32_t> words(bytes.size() / 4 + 2, 0xFFFFFFFFU);
  std::memcpy(words.data(), bytes.data(), bytes.size());
  std::uint32_t found = 0;
  cuda::top_k_read_body body{.words = words.data(), .kept = r.kept.data(), .found = &found};
  for (const compress::chunk_grid& grid : choice.grids(ctx, n)) {
    body.grid = grid;
    body.layout = choice.layout(grid);
    causeway_test::with_group(threads, [&](auto& g) {
      for (std::size_t chunk = 0; chunk < grid.count(); ++chunk) body.run<1>(g, static_cast<std::int64_t>(chunk));
    });
    body.kept += grid.count() * body.layout.count;
    body.first_bit += 8 * compress::bytes_of_bits(grid.count() * body.layout.bits);
  }
  CHECK((found & ~cuda::bad_indices) == 0);
  r.good = found == 0;
  return r;
}

void check_equal(const reading& a, const reading& expected) {
  REQUIRE(a.good == expected.good);
  if (a.good) CHECK(a.kept == expected.kept);
}

}  // namespace

TEST_CASE("cuda top-k: indices are read as the CPU reads them, in every form", "[cuda][fast]") {
  thread_pool pool{1};
  const std::vector<compress::matrix_range> matrices{{10, 64, 96}, {10 + 64 * 96, 37, 50}};
  const std::size_t n = 10 + 64 * 96 + 37 * 50 + 21;
  const auto x = causeway_test::numbers(n, 2);
  const compress::message_context ctx{.pool = pool, .matrices = matrices};
  for (const auto form : {index_form::packed, index_form::bitmask, index_form::elias_fano, index_form::smallest}) {
    for (const std::uint32_t k : {1U, 7U, 300U, 4096U}) {
      const compress::top_k choice{{.k = k, .indices = form}};
      std::vector<std::byte> bytes(choice.most_bytes(ctx, n));
      reading made;
      choice.select(ctx, x, made.kept, bytes);
      check_equal(here(choice, ctx, bytes, n, 1), made);
      check_equal(here(choice, ctx, bytes, n, 5), made);
    }
  }
}

TEST_CASE("cuda top-k: bits that no writer makes are refused where the CPU refuses them", "[cuda][fast]") {
  thread_pool pool{1};
  const std::size_t n = 533;
  const auto x = causeway_test::numbers(n, 4);
  const compress::message_context ctx{.pool = pool};
  for (const auto form : {index_form::packed, index_form::bitmask, index_form::elias_fano}) {
    const compress::top_k choice{{.k = 5, .chunks = {.run = 50}, .indices = form}};
    std::vector<std::byte> good(choice.most_bytes(ctx, n));
    std::vector<std::uint32_t> kept;
    choice.select(ctx, x, kept, good);
    rng draw{7};
    int refused = 0, read = 0;
    for (int i = 0; i < 400; ++i) {
      auto bytes = good;
      if (i == 0) {
        std::fill(bytes.begin(), bytes.end(), std::byte{0xFF});
      } else if (i == 1) {
        std::fill(bytes.begin(), bytes.end(), std::byte{0});
      } else if (i < 10) {
        bytes.back() ^= static_cast<std::byte>(1U << (i - 2));  // also the bits behind the last index
      } else {
        bytes[draw.below(bytes.size())] ^= static_cast<std::byte>(1U << draw.below(8));
        if (i > 200) bytes[draw.below(bytes.size())] = static_cast<std::byte>(draw.below(256));
      }
      const reading expected = on_cpu(choice, ctx, bytes, n);
      check_equal(here(choice, ctx, bytes, n, 1), expected);
      if (i < 60) check_equal(here(choice, ctx, bytes, n, 4), expected);
      ++(expected.good ? read : refused);
    }
    CHECK(refused > 100);
    CHECK((read > 5 || form == index_form::bitmask));  // one bit more or less is another number of ones
  }
}
