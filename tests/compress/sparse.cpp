// SPDX-License-Identifier: Apache-2.0
#include <causeway/compress/sparse.hpp>

#include "compress/heavy_tails.hpp"
#include "compress/message_checks.hpp"
#include "support/catch.hpp"

#include <causeway/compress/bits.hpp>
#include <causeway/compress/block_int8.hpp>
#include <causeway/compress/codebook.hpp>
#include <causeway/compress/dct.hpp>
#include <causeway/compress/mask.hpp>
#include <causeway/compress/none.hpp>
#include <causeway/compress/sign.hpp>
#include <causeway/compress/stacked.hpp>
#include <causeway/compress/threshold.hpp>
#include <causeway/compress/top_k.hpp>

#include <limits>
#include <numeric>

using namespace causeway;
using namespace causeway::compress;

namespace {

using demo = sparse<dct_tiles, top_k, none>;
using sparse_loco = sparse<no_transform, top_k, codebook<2>>;
using sparta = sparse<no_transform, shared_mask, none>;
using cocktail = sparse<no_transform, stacked<shared_mask, top_k>, bits<4>>;
using gaia = sparse<no_transform, significant, none>;
using random = sparse<no_transform, random_k, compress::block_int8>;
using large = sparse<dct_tiles, threshold, compress::block_int8>;

template <class C>
C small() {
  return C{};
}
template <>
sparta small<sparta>() {
  return sparta{{}, shared_mask{{.share = 0.05}}};
}
template <>
cocktail small<cocktail>() {
  return cocktail{{}, stacked{shared_mask{{.share = 0.2}}, top_k{{.k = 102, .chunks = {.run = 512}}}}};
}

message_context context_of(thread_pool& pool, std::uint64_t round = 0) {
  return {.pool = pool, .matrices = message_checks::matrices, .seed = 70 + round, .own_seed = 900 + round, .round = round};
}

/// Bits a parameter of a 1024 by 1024 matrix, at most.
template <class C>
double bits_a_parameter(const C& codec) {
  thread_pool pool{1};
  const std::vector<matrix_range> matrices{{.offset = 0, .rows = 1024, .columns = 1024}};
  return static_cast<double>(codec.most_bytes({.pool = pool, .matrices = matrices}, 1024 * 1024)) * 8 / (1024.0 * 1024.0);
}

}  // namespace

TEST_CASE("sparse: indices first, then the values in their order", "[compress][fast]") {
  thread_pool pool{1};
  const message_context ctx{.pool = pool};
  const sparse<no_transform, top_k, none> codec{{}, top_k{{.k = 2, .indices = index_form::packed}}};
  std::vector<float> x(16, 0.0F);
  x[5] = 1.0F, x[10] = -2.0F;
  const auto bytes = message_checks::encode(codec, ctx, x);
  CHECK(codec_checks::as_ints(bytes) == std::vector<int>{0xA5, 0, 0, 0x80, 0x3F, 0, 0, 0, 0xC0});
  CHECK(message_checks::decode(codec, ctx, bytes, 16) == x);
  std::vector<float> sum(16, 1.0F), counts(16, 0.0F);
  REQUIRE(codec.decode_add(ctx, bytes, sum, 0.5F, counts));
  CHECK(sum[5] == 1.5F);
  CHECK(sum[10] == 0.0F);
  CHECK(sum[0] == 1.0F);
  CHECK(counts[5] == 0.5F);
  CHECK(std::accumulate(counts.begin(), counts.end(), 0.0F) == 1.0F);
}

TEST_CASE("sparse: bytes a parameter are those the papers state, and fewer", "[compress][fast]") {
  const top_k packed64{{.k = 64, .indices = index_form::packed}}, packed32{{.k = 32, .indices = index_form::packed}};
  // SparseLoCo: 14 bits for each of 64 of 4096 values, 146 times below f32, and a codebook.
  const double indices_and_codes = (12.0 + 2.0) * 64 / 4096;
  CHECK(32 / indices_and_codes == Approx(146.3).epsilon(0.001));
  CHECK(bits_a_parameter(sparse_loco{{}, packed64}) == Approx(indices_and_codes + 128.0 / (1024 * 1024)).epsilon(0.002));
  // A scale for each 64 values: 141 times.
  using scaled = sparse<no_transform, top_k, bits<2>>;
  const scaled one_scale{{}, packed64, bits<2>{{.bucket = 65536}}}, scales{{}, packed64, bits<2>{{.bucket = 64}}};
  CHECK(bits_a_parameter(one_scale) == indices_and_codes + 32.0 / (1024 * 1024));
  CHECK(bits_a_parameter(scales) == indices_and_codes + 32.0 / 4096);
  CHECK(32 / bits_a_parameter(scales) > 141);
  const scaled compact{{}, top_k{}, bits<2>{{.bucket = 64, .scales = scale_format::bf16}}};
  CHECK(bits_a_parameter(compact) == (8.0 + 2.0) * 64 / 4096 + 16.0 / 4096);  // 200 times
  // DeMo: 32 coefficients of f32 for each tile. Indices of 16 bits would make 85 times.
  const double wide = (16.0 + 32.0) * 32 / 4096;
  CHECK(32 / wide == Approx(85.3).epsilon(0.001));
  CHECK(bits_a_parameter(demo{{}, packed32}) == (12.0 + 32.0) * 32 / 4096);
  CHECK(bits_a_parameter(demo{{}, top_k{{.k = 32}}}) == (9.0 + 32.0) * 32 / 4096);
  // SPARTA: nothing but the values.
  CHECK(bits_a_parameter(sparta{}) == 32.0 * 5243 / (1024.0 * 1024.0));
  // CocktailSGD: a tenth, of which a fifth, of 4 bits with a scale for each 128.
  const top_k fifth{{.k = 819, .chunks = {.run = 4096}, .indices = index_form::bitmask}};
  const double mask_codes_scales = 0.1 * (1 + 0.2 * (4 + 32.0 / 128));
  const cocktail published{{}, stacked{shared_mask{{.share = 0.1}}, fifth}, bits<4>{{.bucket = 128}}};
  CHECK(bits_a_parameter(published) ==
        Approx(mask_codes_scales).epsilon(0.01));  // and a short last run, of which more is kept
  CHECK(32 / bits_a_parameter(published) > 117);
}

TEMPLATE_TEST_CASE("sparse: what was sent and what was kept add up to what came in, over 100 rounds", "[compress][fast]",
                   demo, sparse_loco, sparta, cocktail, gaia, random, large) {
  const auto make = [](thread_pool& pool, std::uint64_t round) { return context_of(pool, round); };
  message_checks::check_conservation(small<TestType>(), make, message_checks::row_size, 100);
}

TEST_CASE("sparse: without a transform, what is not sent stays to the bit", "[compress][fast]") {
  thread_pool pool{1};
  const message_context ctx = context_of(pool);
  const auto x = codec_checks::values(message_checks::row_size);
  const sparse<no_transform, top_k, none> codec{{}, top_k{{.k = 8}}};
  const auto bytes = message_checks::encode(codec, ctx, x);
  std::vector<float> residual(x.size());
  REQUIRE(residual_of(codec, ctx, x, bytes, residual));
  const auto sent = message_checks::decode(codec, ctx, bytes, x.size());
  std::size_t kept = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    kept += sent[i] != 0 ? 1U : 0U;
    REQUIRE(residual[i] == (sent[i] != 0 ? 0.0F : x[i]));
    REQUIRE((sent[i] == 0.0F || sent[i] == x[i]));
  }
  CHECK(kept == codec.choice().most_kept(ctx, x.size()));
}

TEST_CASE("sparse: of what travels as signs, all that was chosen counts as sent", "[compress][fast]") {
  using signs = sparse<dct_tiles, top_k, unit_sign>;
  thread_pool pool{1};
  const message_context ctx = context_of(pool);
  const auto x = codec_checks::values(message_checks::row_size);
  const signs codec{{}, top_k{{.k = 8}}};
  const demo exact{{}, top_k{{.k = 8}}};
  std::vector<std::byte> bytes(codec.most_bytes(ctx, x.size()));
  std::vector<float> left(x.size()), expected(x.size());
  REQUIRE(codec.encode(ctx, x, bytes, left) == bytes.size());
  CHECK(bytes == message_checks::encode(codec, ctx, x));
  REQUIRE(residual_of(exact, ctx, x, message_checks::encode(exact, ctx, x), expected));
  for (std::size_t i = 0; i < x.size(); ++i) CHECK(left[i] == Approx(expected[i]).margin(1e-5));
  std::vector<float> sum(x.size());
  REQUIRE(codec.decode_add(ctx, bytes, sum, 1.0F, {}));
  CHECK(std::all_of(sum.begin(), sum.end(), [](float v) { return v == 0 || v == 1 || v == -1; }));
}

TEMPLATE_TEST_CASE("sparse: the thread count changes no bit", "[compress][fast]", demo, sparse_loco, sparta, cocktail, gaia,
                   random, large) {
  message_checks::check_threads(
      small<TestType>(), [](thread_pool& pool) { return context_of(pool); },
      codec_checks::values(message_checks::row_size));
  message_checks::check_threads(
      small<TestType>(), [](thread_pool& pool) { return message_context{.pool = pool, .seed = 1}; },
      codec_checks::values(200001));
}

TEMPLATE_TEST_CASE("sparse: empty and tiny rows", "[compress][fast]", demo, sparse_loco, sparta, cocktail, gaia, random,
                   large) {
  thread_pool pool{1};
  const message_context ctx{.pool = pool};
  for (const std::size_t n : {0U, 1U, 2U, 3U}) {
    const auto bytes = message_checks::encode(small<TestType>(), ctx, std::vector<float>(n, 3.0F));
    const auto back = message_checks::decode(small<TestType>(), ctx, bytes, n);
    for (const float v : back) CHECK((v == 0.0F || v == Approx(3).epsilon(0.01)));
  }
}

TEMPLATE_TEST_CASE("sparse: damaged messages are refused without a trace, or are messages", "[compress][fast]", demo,
                   sparse_loco, sparta, cocktail, gaia, random, large) {
  thread_pool pool{1};
  constexpr bool fixed = !std::is_same_v<TestType, gaia> && !std::is_same_v<TestType, large>;
  const message_context ctx{.pool = pool, .seed = 4, .own_seed = 5};
  message_checks::fuzz(small<TestType>(), ctx, codec_checks::values(700), 600, fixed);
}

TEMPLATE_TEST_CASE("sparse: each wrong length is refused", "[compress][fast]", demo, sparse_loco, sparta, cocktail, gaia,
                   random, large) {
  thread_pool pool{1};
  const message_context ctx{.pool = pool, .seed = 4};
  const auto codec = small<TestType>();
  auto bytes = message_checks::encode(codec, ctx, codec_checks::values(300));
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    CHECK(message_checks::refused(codec, ctx, std::span{bytes}.first(length), 300) == errc::protocol);
  }
  bytes.push_back(std::byte{0});
  CHECK(message_checks::refused(codec, ctx, bytes, 300) == errc::protocol);
}

TEMPLATE_TEST_CASE("sparse: values that are not finite do not get through", "[compress][fast]", demo, sparse_loco, gaia,
                   large) {
  thread_pool pool{1};
  const message_context ctx{.pool = pool};
  for (const float poison : {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::quiet_NaN()}) {
    for (const std::size_t at : {0U, 77U, 299U}) {
      auto x = codec_checks::values(300);
      x[at] = poison;
      const auto codec = small<TestType>();
      CHECK(message_checks::refused(codec, ctx, message_checks::encode(codec, ctx, x), 300) == errc::non_finite);
    }
  }
}

TEST_CASE("sparse: coefficients are averaged over those who sent them, then inverted once", "[compress][fast]") {
  thread_pool pool{1};
  const message_context ctx{.pool = pool};
  const demo codec{{}, top_k{{.k = 1}}};
  std::vector<float> wave_a(64), wave_b(64), a(64), b(64);
  wave_a[3] = 6.0F, wave_b[9] = 2.0F;
  a = wave_a, b = wave_b;
  codec.inverse(ctx, a);
  codec.inverse(ctx, b);
  std::vector<float> sum(64), counts(64);
  for (const auto* x : {&a, &a, &b})
    REQUIRE(codec.decode_add(ctx, message_checks::encode(codec, ctx, *x), sum, 0.5F, counts));
  CHECK(counts[3] == 1.0F);
  CHECK(counts[9] == 0.5F);
  CHECK(std::accumulate(counts.begin(), counts.end(), 0.0F) == 1.5F);
  for (std::size_t i = 0; i < 64; ++i) sum[i] = counts[i] > 0 ? sum[i] / counts[i] : 0.0F;
  codec.inverse(ctx, sum);
  for (std::size_t i = 0; i < 64; ++i) CHECK(sum[i] == Approx(a[i] + b[i]).margin(1e-5));
}

TEST_CASE("sparse: a transform gathers what is spread, so that one coefficient tells it", "[compress][fast]") {
  thread_pool pool{1};
  const message_context ctx{.pool = pool};
  const std::vector<float> x(64, 1.0F);
  const demo waves{{}, top_k{{.k = 1}}};
  const sparse<no_transform, top_k, none> points{{}, top_k{{.k = 1}}};
  const auto smooth = message_checks::decode(waves, ctx, message_checks::encode(waves, ctx, x), 64);
  for (const float v : smooth) CHECK(v == Approx(1));
  const auto spiky = message_checks::decode(points, ctx, message_checks::encode(points, ctx, x), 64);
  CHECK(std::accumulate(spiky.begin(), spiky.end(), 0.0F) == 1.0F);
}

TEST_CASE("sparse: names and traits say what it is made of", "[compress][fast]") {
  CHECK(demo::name == "sparse<dct_tiles,top_k,none>");
  CHECK(cocktail::name == "sparse<no_transform,stacked,bits4>");
  STATIC_REQUIRE(MessageCodec<demo>);
  STATIC_REQUIRE(demo::traits.transform);
  STATIC_REQUIRE_FALSE(demo::traits.shared_support);
  STATIC_REQUIRE_FALSE(sparta::traits.transform);
  STATIC_REQUIRE(sparta::traits.shared_support);
  STATIC_REQUIRE_FALSE(cocktail::traits.shared_support);
  STATIC_REQUIRE((demo::traits.sparse && sparta::traits.sparse && gaia::traits.lossy));
  STATIC_REQUIRE(random::traits.per_block);
  STATIC_REQUIRE(std::is_same_v<as_message<demo>, demo>);
}

TEST_CASE("sparse: contracts by what its two parts promise, whatever the tails", "[compress][fast]") {
  thread_pool pool{1};
  const std::vector<matrix_range> matrices{{.offset = 0, .rows = 128, .columns = 128}};
  const message_context ctx{.pool = pool, .matrices = matrices, .seed = 5, .own_seed = 6};
  const auto worst = [&](const auto& codec) {
    return heavy_tails::worst_lost(message_checks::trip_of(codec, ctx), {128 * 128});
  };
  const double kept = 64 / 4096.0, of_bits = 127.0 / (14 * 14 + 127);
  CHECK(worst(demo{}) <= 1 - kept);
  CHECK(worst(sparse<no_transform, top_k, bits<4>>{}) <= 1 - kept * (1 - of_bits));
  CHECK(worst(sparse<dct_tiles, top_k, compress::block_int8>{}) <= 1 - kept * (1 - 255.0 / (254 * 254 + 255)));
  CHECK(worst(sparse_loco{}) < 1 - 0.4 * kept);  // codebook<2> loses no more than 0.6 of these
  CHECK(worst(sparse<no_transform, top_k, compress::sign>{}) < 1 - 0.2 * kept);
}
