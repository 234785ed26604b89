// SPDX-License-Identifier: Apache-2.0
#include <causeway/cuda/bodies/block_codes.hpp>

#include "cuda/block_cases.hpp"
#include "support/catch.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

using namespace causeway;
using namespace causeway_test;
using compress::scale_format;

namespace {

/// Ordinary blocks, and blocks of zeros, of the smallest and of large numbers, and of ties.
std::vector<float> row(std::size_t n, std::uint64_t seed) {
  auto x = numbers(n, seed);
  const auto spoil = [&](std::size_t from, float factor) {
    for (std::size_t i = from; i < from + 128 && i < n; ++i) x[i] *= factor;
  };
  spoil(128, 0.0F);
  spoil(512, 1e-38F);
  spoil(640, 1e17F);  // the square of more would overflow
  for (std::size_t i = 900; i < n; ++i) x[i] = static_cast<float>(static_cast<int>(i % 31) - 15) * 0.5F;
  return x;
}

std::uint32_t seen_by_cpu(const result<void>& outcome) {
  if (outcome) return 0;
  return outcome.error().code == errc::non_finite ? 2U : outcome.error().code == errc::corrupt ? 1U : 99U;
}

/// Bytes, values, sums and refusals are those of the codec.
template <class Codec, class Code>
void compare(const Codec& codec, const Code& code) {
  thread_pool pool{1};
  for (const std::size_t n : {1U, 7U, 16U, 129U, 1029U}) {
    const auto x = row(n, 11);
    std::vector<std::byte> expected(codec.encoded_size(n));
    codec.encode(pool, x, expected);
    for (const int threads : {1, 3}) {
      const auto got = encode_here({x.data()}, n, code, threads);
      REQUIRE(got == expected);
    }
    std::vector<float> values(n), expected_values(n);
    REQUIRE(codec.decode(pool, expected, expected_values));
    decode_here(expected, values, code, false, 1.0F);
    CHECK(differing(values, expected_values) == 0);
    auto sum = numbers(n, 12), expected_sum = sum;
    REQUIRE(codec.decode_add(pool, expected, expected_sum, -0.37F));
    decode_here(expected, sum, code, true, -0.37F);
    CHECK(differing(sum, expected_sum) == 0);
    CHECK(check_here(expected, n, code) == 0);

    rng draw{n};
    for (int i = 0; i < 60; ++i) {  // hostile bytes: a few bits turned over
      auto bytes = expected;
      for (int k = 0; k < 3; ++k) {
        bytes[draw.below(bytes.size())] ^= static_cast<std::byte>(1U << draw.below(8));
      }
      const std::uint32_t cpu = seen_by_cpu(codec.decode(pool, bytes, expected_values));
      const std::uint32_t body = check_here(bytes, n, code);
      CHECK((body & 2U ? 2U : body) == cpu);  // where both are wrong, the CPU reports what is not finite
    }
  }
}

template <unsigned Bits>
void compare_bits() {
  using compress::bucket_scale;
  for (const auto scale : {bucket_scale::max, bucket_scale::rms}) {
    for (const bool stochastic : {false, true}) {
      for (const std::uint32_t bucket : {16U, 80U, 128U}) {
        const auto format = bucket == 80 ? scale_format::bf16 : scale_format::f32;
        const compress::bits_options o{
            .bucket = bucket, .scale = scale, .scales = format, .stochastic = stochastic, .seed = 99};
        compare(compress::bits<Bits>{o}, cuda::bits_code<Bits>{o});
      }
    }
  }
}

}  // namespace

TEST_CASE("cuda block codes: 8-bit blocks are the CPU's to the bit", "[cuda][fast]") {
  for (const auto format : {scale_format::f32, scale_format::bf16}) {
    for (const std::uint32_t block : {64U, 256U}) {
      const compress::block_int8_options o{.block = block, .scales = format};
      compare(compress::block_int8{o}, cuda::int8_code{o});
    }
  }
}

TEST_CASE("cuda block codes: E3M0 is the CPU's to the bit", "[cuda][fast]") {
  for (const std::uint32_t block : {16U, 256U}) {
    const compress::e3m0_options o{.block = block};
    compare(compress::e3m0{o}, cuda::e3m0_code{o});
  }
}

TEST_CASE("cuda block codes: 1 to 4 bits are the CPU's to the bit", "[cuda][fast]") {
  compare_bits<1>();
  compare_bits<2>();
  compare_bits<3>();
  compare_bits<4>();
}

TEST_CASE("cuda block codes: 5 to 8 bits are the CPU's to the bit", "[cuda][fast]") {
  compare_bits<5>();
  compare_bits<6>();
  compare_bits<7>();
  compare_bits<8>();
}
