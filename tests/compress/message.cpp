// SPDX-License-Identifier: Apache-2.0
#include <causeway/compress/message.hpp>

#include "compress/message_checks.hpp"
#include "support/catch.hpp"

#include <causeway/compress/bf16.hpp>
#include <causeway/compress/block_int8.hpp>
#include <causeway/compress/fp16.hpp>
#include <causeway/compress/none.hpp>

using namespace causeway;
using compress::as_message;
using compress::block_int8;
using compress::codec_traits;
using compress::dense_message;
using compress::fp16;
using compress::message_context;
using compress::MessageCodec;
using compress::none;

namespace {

/// f32, with an addition of its own that leaves a mark.
class marking : public none {
 public:
  static result<void> decode_add(thread_pool& pool, std::span<const std::byte> bytes, std::span<float> sum, float weight) {
    std::vector<float> values(sum.size());
    CAUSEWAY_TRY(decode(pool, bytes, values));
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += weight * values[i] + 1000.0F;
    return {};
  }
};

/// A codec without an addition of its own.
template <class C>
class plain {
 public:
  static constexpr std::string_view name = "plain";
  static constexpr codec_traits traits = C::traits;
  static constexpr bool raw = C::raw;
  std::size_t block() const { return codec_.block(); }
  std::size_t encoded_size(std::size_t n) const { return codec_.encoded_size(n); }
  std::size_t encode(thread_pool& pool, std::span<const float> values, std::span<std::byte> room) const {
    return codec_.encode(pool, values, room);
  }
  result<void> decode(thread_pool& pool, std::span<const std::byte> bytes, std::span<float> values) const {
    return codec_.decode(pool, bytes, values);
  }

 private:
  C codec_;
};

/// Sends twice the values: the inverse of its "transform" halves them.
class doubled {
 public:
  static constexpr std::string_view name = "doubled";
  static constexpr codec_traits traits{.lossy = false, .transform = true};
  static std::size_t most_bytes(const message_context&, std::size_t n) { return n * 4; }
  static std::size_t encode(const message_context& ctx, std::span<const float> values, std::span<std::byte> room) {
    std::vector<float> twice(values.begin(), values.end());
    for (float& v : twice) v *= 2;
    return none::encode(ctx.pool, twice, room);
  }
  static result<void> decode_add(const message_context& ctx, std::span<const std::byte> bytes, std::span<float> sum,
                                 float weight, std::span<float> counts) {
    return dense_message<none>{}.decode_add(ctx, bytes, sum, weight, counts);
  }
  static void inverse(const message_context&, std::span<float> row) {
    for (float& v : row) v /= 2;
  }
};

/// Like `doubled`, but without an inverse: no message codec.
class forgetful : public dense_message<none> {
 public:
  static constexpr codec_traits traits{.lossy = false, .transform = true};
};

}  // namespace

TEMPLATE_TEST_CASE("messages: a dense codec decodes to the same values as a message", "[compress][fast]", none,
                   compress::bf16, fp16, block_int8, plain<none>, plain<block_int8>) {
  thread_pool pool{1};
  const message_context ctx{.pool = pool};
  const TestType codec;
  const as_message<TestType> message{codec};
  for (const std::size_t n : {0U, 1U, 255U, 65536U, 65537U, 140000U}) {
    const auto x = codec_checks::values(n);
    std::vector<float> direct(n);
    REQUIRE(codec.decode(pool, codec_checks::encode(codec, pool, x), direct));
    const auto bytes = message_checks::encode(message, ctx, x);
    CHECK(bytes.size() == codec.encoded_size(n));
    CHECK(message_checks::decode(message, ctx, bytes, n) == direct);  // as numbers: 0 + -0 is 0
  }
}

TEMPLATE_TEST_CASE("messages: the thread count changes no bit of a dense message", "[compress][fast]", none, compress::bf16,
                   fp16, block_int8) {
  const auto make = [](thread_pool& pool) { return message_context{.pool = pool}; };
  message_checks::check_threads(as_message<TestType>{}, make, codec_checks::values(150001));
}

TEST_CASE("messages: decoding adds weighted values and counts the weight", "[compress][fast]") {
  thread_pool pool{1};
  const message_context ctx{.pool = pool};
  const as_message<none> message;
  const auto bytes = message_checks::encode(message, ctx, {1.0F, -2.0F, 4.0F});
  std::vector<float> sum{10.0F, 20.0F, 30.0F}, counts{0.0F, 1.0F, 2.0F};
  REQUIRE(message.decode_add(ctx, bytes, sum, 0.5F, counts));
  CHECK(sum == std::vector<float>{10.5F, 19.0F, 32.0F});
  CHECK(counts == std::vector<float>{0.5F, 1.5F, 2.5F});
  REQUIRE(message.decode_add(ctx, bytes, sum, -0.5F, {}));
  CHECK(sum == std::vector<float>{10.0F, 20.0F, 30.0F});
}

TEST_CASE("messages: a codec's own addition is used", "[compress][fast]") {
  thread_pool pool{1};
  const message_context ctx{.pool = pool};
  const as_message<marking> message{marking{}};
  const auto bytes = message_checks::encode(message, ctx, std::vector<float>(100000, 3.0F));
  std::vector<float> sum(100000, 1.0F), counts(100000);
  REQUIRE(message.decode_add(ctx, bytes, sum, 2.0F, counts));
  CHECK(sum == std::vector<float>(100000, 1007.0F));
  CHECK(counts == std::vector<float>(100000, 2.0F));
}

TEMPLATE_TEST_CASE("messages: an error adds nothing, not even the pieces before it", "[compress][fast]", block_int8,
                   plain<block_int8>) {
  thread_pool pool{1};
  const message_context ctx{.pool = pool};
  const as_message<TestType> message;
  const auto x = codec_checks::values(140000);
  const auto good = message_checks::encode(message, ctx, x);
  auto bytes = good;
  bytes.pop_back();
  CHECK(message_checks::refused(message, ctx, bytes, x.size()) == errc::protocol);
  bytes = good;
  bytes.push_back(std::byte{0});
  CHECK(message_checks::refused(message, ctx, bytes, x.size()) == errc::protocol);
  bytes = good;
  bytes.back() = std::byte{0x80};
  CHECK(message_checks::refused(message, ctx, bytes, x.size()) == errc::corrupt);
  auto poisoned = x;
  poisoned[139999] = std::numeric_limits<float>::quiet_NaN();
  CHECK(message_checks::refused(message, ctx, message_checks::encode(message, ctx, poisoned), x.size()) ==
        errc::non_finite);
}

TEST_CASE("messages: the residual is what the message does not say", "[compress][fast]") {
  thread_pool pool{2};
  const message_context ctx{.pool = pool};
  const as_message<compress::bf16> message;
  const std::vector<float> x{1.0F, 1.001953125F, -3.0F};  // the middle one lies between two bf16 numbers
  std::vector<float> residual(3, 9.0F);
  REQUIRE(residual_of(message, ctx, x, message_checks::encode(message, ctx, x), residual));
  CHECK(residual == std::vector<float>{0.0F, 0.001953125F, 0.0F});
  REQUIRE(residual_of(doubled{}, ctx, x, message_checks::encode(doubled{}, ctx, x), residual));
  CHECK(residual == std::vector<float>{0.0F, 0.0F, 0.0F});
  const auto none_sent = std::vector<std::byte>(12);
  REQUIRE(residual_of(doubled{}, ctx, x, none_sent, residual));
  CHECK(residual == x);
  CHECK(residual_of(doubled{}, ctx, x, std::span{none_sent}.first(8), residual).error().code == errc::protocol);
}

TEST_CASE("messages: what is a message codec, and what becomes one", "[compress][fast]") {
  STATIC_REQUIRE(MessageCodec<dense_message<none>>);
  STATIC_REQUIRE(MessageCodec<doubled>);
  STATIC_REQUIRE_FALSE(MessageCodec<forgetful>);
  STATIC_REQUIRE_FALSE(MessageCodec<none>);
  STATIC_REQUIRE_FALSE(MessageCodec<int>);
  STATIC_REQUIRE(std::is_same_v<as_message<doubled>, doubled>);
  STATIC_REQUIRE(std::is_same_v<as_message<compress::bf16>, dense_message<compress::bf16>>);
  STATIC_REQUIRE_FALSE(dense_message<compress::bf16>::traits.sparse);
}
