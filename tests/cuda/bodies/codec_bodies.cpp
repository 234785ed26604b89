// SPDX-License-Identifier: Apache-2.0
#include <causeway/cuda/bodies/codec_bodies.hpp>

#include <causeway/compress/bf16.hpp>
#include <causeway/compress/fp16.hpp>
#include <causeway/compress/message.hpp>

#include "cuda/block_cases.hpp"
#include "support/catch.hpp"

#include <cstdint>
#include <limits>
#include <vector>

using namespace causeway;
using namespace causeway_test;

namespace {

template <class Half>
std::vector<Half> halves_of(std::span<const std::byte> bytes) {
  std::vector<Half> halves(bytes.size() / sizeof(Half));
  std::memcpy(static_cast<void*>(halves.data()), bytes.data(), bytes.size());
  return halves;
}

/// The CPU's bytes, with error feedback, and what it leaves behind.
template <class Codec>
std::vector<std::byte> feed_back_on_cpu(const Codec& codec, const std::vector<float>& x, std::vector<float>& error,
                                        float gain, float decay) {
  thread_pool pool{1};
  const compress::message_context ctx{.pool = pool};
  std::vector<float> row(x.size());
  for (std::size_t i = 0; i < x.size(); ++i)
    row[i] = cuda::detail::times(gain, x[i]) + cuda::detail::times(decay, error[i]);
  const compress::dense_message<Codec> message{codec};
  std::vector<std::byte> bytes(message.most_bytes(ctx, x.size()));
  message.encode(ctx, row, bytes);
  CHECK(compress::residual_of(message, ctx, row, bytes, error));
  return bytes;
}

}  // namespace

TEST_CASE("cuda codecs: error feedback over three rounds leaves the CPU's bytes and the CPU's rest", "[cuda][fast]") {
  const auto check = [](const auto& codec, const auto& code) {
    for (const int threads : {1, 4}) {
      const std::size_t n = 1003;
      std::vector<float> expected_error(n), error(n);
      for (std::uint64_t round = 0; round < 3; ++round) {
        auto x = numbers(n, 30 + round);
        const auto expected = feed_back_on_cpu(codec, x, expected_error, 0.7F, 0.95F);
        const auto got = encode_here({x.data(), error.data(), 0.7F, 0.95F}, n, code, threads);
        CHECK(got == expected);
        CHECK(differing(error, expected_error) == 0);
      }
      CHECK(differing(error, std::vector<float>(n)) > n / 2);
    }
  };
  check(compress::block_int8{}, cuda::int8_code{compress::block_int8_options{}});
  check(compress::e3m0{}, cuda::e3m0_code{compress::e3m0_options{}});
  const compress::bits_options rms{.bucket = 64, .scale = compress::bucket_scale::rms, .stochastic = true, .seed = 3};
  check(compress::bits<2>{rms}, cuda::bits_code<2>{rms});
}

TEST_CASE("cuda codecs: a block with NaN is refused by every reader, and leaves no error behind", "[cuda][fast]") {
  thread_pool pool{1};
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    auto x = numbers(700, 4);
    x[300] = bad;
    std::vector<float> error = numbers(700, 5), decoded(700);
    const cuda::int8_code code{compress::block_int8_options{}};
    std::uint32_t found = 0;
    const auto bytes = encode_here({x.data(), error.data()}, 700, code, 3, &found);
    CHECK(found == static_cast<std::uint32_t>(compress::detail::decoding::non_finite));
    const auto outcome = compress::block_int8{}.decode(pool, bytes, decoded);
    REQUIRE_FALSE(outcome);
    CHECK(outcome.error().code == errc::non_finite);
    CHECK(check_here(bytes, 700, code) == found);
    for (std::size_t i = 256; i < 512; ++i) CHECK(error[i] == 0.0F);
    CHECK(error[100] != 0.0F);
  }
}

TEMPLATE_TEST_CASE("cuda codecs: halves are the CPU's, decoded, added and checked", "[cuda][fast]", bf16, f16) {
  thread_pool pool{1};
  constexpr std::int64_t n = 1001;
  using codec = std::conditional_t<std::is_same_v<TestType, bf16>, compress::bf16, compress::fp16>;
  const auto x = numbers(n, 6, 10.0F);
  std::vector<std::byte> expected(codec::encoded_size(n));
  codec::encode(pool, x, expected);
  std::vector<TestType> got(n);
  cuda::run_here(cuda::half_encode_body<TestType>{{x.data()}, got.data()}, n);
  CHECK(differing(got, halves_of<TestType>(expected)) == 0);

  auto sum = numbers(n, 7), expected_sum = sum;
  REQUIRE(codec::decode_add(pool, expected, expected_sum, -0.3F));
  cuda::run_here(cuda::half_decode_body<TestType>{got.data(), sum.data(), true, -0.3F}, n);
  CHECK(differing(sum, expected_sum) == 0);
  REQUIRE(codec::decode(pool, expected, expected_sum));
  cuda::run_here(cuda::half_decode_body<TestType>{got.data(), sum.data()}, n);
  CHECK(differing(sum, expected_sum) == 0);

  auto error = numbers(n, 8), expected_error = error;
  const auto fed = feed_back_on_cpu(codec{}, x, expected_error, 1.0F, 0.9F);
  std::uint32_t found = 0;
  cuda::run_here(cuda::half_encode_body<TestType>{{x.data(), error.data(), 1.0F, 0.9F}, got.data(), &found}, n);
  CHECK(differing(got, halves_of<TestType>(fed)) == 0);
  CHECK(differing(error, expected_error) == 0);
  CHECK(found == 0);

  cuda::run_here(cuda::half_check_body<TestType>{got.data(), &found}, n);
  CHECK(found == 0);
  got[n - 1] = TestType{std::numeric_limits<float>::infinity()};
  cuda::run_here(cuda::half_check_body<TestType>{got.data(), &found}, n);
  CHECK(found == static_cast<std::uint32_t>(compress::detail::decoding::non_finite));
}
