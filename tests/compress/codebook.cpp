// SPDX-License-Identifier: Apache-2.0
#include <causeway/compress/codebook.hpp>

#include "compress/codec_checks.hpp"
#include "compress/heavy_tails.hpp"
#include "support/catch.hpp"

#include <causeway/compress/sparse.hpp>
#include <causeway/compress/top_k.hpp>

#include <algorithm>
#include <cmath>
#include <vector>

using namespace causeway;
using compress::codebook;
using compress::codebook_options;
using compress::matrix_range;
using compress::message_context;
namespace tails = heavy_tails;

namespace {

template <unsigned Bits>
std::vector<float> round_trip(const std::vector<float>& x) {
  thread_pool pool{1};
  std::vector<float> back(x.size());
  REQUIRE(codebook<Bits>{}.decode(pool, codec_checks::encode(codebook<Bits>{}, pool, x), back));
  return back;
}

/// The k largest of n values.
std::vector<float> kept_of(std::vector<float> x, std::size_t k) {
  std::sort(x.begin(), x.end(), [](float a, float b) { return std::abs(a) > std::abs(b); });
  x.resize(k);
  return x;
}

}  // namespace

TEST_CASE("codebook: the bytes are those of earlier versions", "[compress][fast]") {
  CHECK(codec_checks::checksum_of_bytes(compress::codebook<2>{}) == 0x1B89FE102D05C416U);
  CHECK(codec_checks::checksum_of_bytes(compress::codebook<4>{}) == 0xF22EF2540764B227U);
}

TEST_CASE("codebook: sizes follow the formula", "[compress][fast]") {
  CHECK(codebook<2>{}.encoded_size(0) == 0);
  CHECK(codebook<2>{}.encoded_size(1) == 17);
  CHECK(codebook<2>{}.encoded_size(4096) == 16 + 1024);
  CHECK(codebook<3>{}.encoded_size(9) == 32 + 4);
  CHECK(codebook<8>{}.encoded_size(10) == 1024 + 10);
  CHECK(codebook<4>::name == "codebook4");
}

TEST_CASE("codebook: neither thread count nor instruction set change a bit", "[compress][fast]") {
  codec_checks::check_determinism(codebook<2>{});
  codec_checks::check_determinism(codebook<5>{});
  codec_checks::check_determinism(codebook<8>{});
}

TEST_CASE("codebook: adding is decoding and adding; bad bytes change nothing", "[compress][fast]") {
  codec_checks::check_adding(codebook<2>{});
  codec_checks::check_adding(codebook<8>{});
}

TEST_CASE("codebook: what was sent and what is left over are what was put in", "[compress][fast]") {
  codec_checks::check_error_feedback(codebook<2>{});
}

TEST_CASE("codebook: equal values and zeros are exact", "[compress][fast]") {
  for (const float value : {0.0F, 3.7F, -1e-30F, 1e18F}) {
    const std::vector<float> x(1000, value);
    CHECK(round_trip<2>(x) == x);
  }
  CHECK(round_trip<2>({-2.5F}) == std::vector<float>{-2.5F});
}

TEST_CASE("codebook: what is lost is shorter than what was put in, whatever the tails", "[compress][fast]") {
  for (const auto& [name, draw] : tails::all()) {
    for (const std::size_t n : {2U, 3U, 50U, 1000U, 30000U}) {
      for (std::uint64_t seed = 1; seed <= 20; ++seed) {
        INFO(name << ", " << n << " values, seed " << seed);
        const auto x = draw(n, seed);
        CHECK(tails::lost(x, round_trip<2>(x)) < 1.0);
        CHECK(tails::lost(x, round_trip<8>(x)) < 1.0);
      }
    }
  }
}

TEST_CASE("codebook: two bits lose a ninth of the largest normal values, and half of Student's", "[compress][fast]") {
  // Of each 4,096 values the 64 largest, as SparseLoCo keeps them: bits<2> loses 0.4 of the first, and 5 of the second.
  const auto relative = [](auto draw) {
    std::vector<float> kept;
    for (std::uint64_t chunk = 1; chunk <= 64; ++chunk) {
      for (const float v : kept_of(draw(4096, chunk), 64)) kept.push_back(v);
    }
    return std::sqrt(tails::lost(kept, round_trip<2>(kept)));
  };
  CHECK(relative(tails::normal) == Approx(0.11).margin(0.02));
  CHECK(relative(tails::laplace) == Approx(0.19).margin(0.03));
  CHECK(relative(tails::student) == Approx(0.6).margin(0.1));
}

TEST_CASE("codebook: a sparse message has one for each tensor, so that small ones are not lost", "[compress][fast]") {
  using codec_type = compress::sparse<compress::no_transform, compress::top_k, codebook<2>>;
  thread_pool pool{1};
  const codec_type codec;
  std::vector<matrix_range> matrices;
  std::vector<float> x;
  float scale = 1.0F;
  for (std::size_t t = 0; t < 5; ++t, scale *= 0.316F) {
    const std::size_t rows = t == 2 ? 1 : 128, columns = t == 2 ? 100 : 64;
    matrices.push_back({x.size(), rows, columns});
    for (const float v : tails::normal(rows * columns, t + 1)) x.push_back(scale * v);
    x.resize((x.size() + 15) / 16 * 16);  // padding
  }
  const message_context ctx{.pool = pool, .matrices = matrices};
  std::vector<std::byte> bytes(codec.most_bytes(ctx, x.size()));
  bytes.resize(codec.encode(ctx, x, bytes));
  std::vector<float> sum(x.size()), left = x;
  REQUIRE(codec.decode_add(ctx, bytes, sum, 1.0F, {}));
  REQUIRE(codec.decode_add(ctx, bytes, left, -1.0F, {}));
  for (const matrix_range& m : matrices) {
    const auto first = static_cast<std::ptrdiff_t>(m.offset),
               last = first + static_cast<std::ptrdiff_t>(m.rows * m.columns);
    std::vector<float> put_in, got;
    for (auto i = first; i < last; ++i) {
      if (sum[static_cast<std::size_t>(i)] == 0) continue;
      put_in.push_back(x[static_cast<std::size_t>(i)]);
      got.push_back(sum[static_cast<std::size_t>(i)]);
    }
    INFO("tensor at " << first);
    CHECK(tails::lost(put_in, got) < 0.3);
    CHECK(std::all_of(sum.begin() + last, sum.begin() + (last + 15) / 16 * 16, [](float v) { return v == 0; }));
  }
  bytes.pop_back();
  CHECK(codec.decode_add(ctx, bytes, sum, 1.0F, {}).error().code == errc::protocol);
}

TEST_CASE("codebook: options that cannot work are named", "[compress][fast]") {
  CHECK(validate(codebook_options{}));
  CHECK(validate(codebook_options{.range_in_deviations = 0.5F}).error().code == errc::invalid_argument);
  CHECK_FALSE(validate(codebook_options{.range_in_deviations = 65.0F}));
}
