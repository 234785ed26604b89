// SPDX-License-Identifier: Apache-2.0
#include <causeway/compress/bucket_means.hpp>

#include "compress/codec_checks.hpp"
#include "support/catch.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

using namespace causeway;
namespace parts = compress::detail;

TEST_CASE("bucket means: a bucket's mean is that of its values, and an empty one's is zero", "[compress][fast]") {
  parts::bucket_means<3> means;
  const std::vector<float> x{1, 2, 3, -8, 5};
  const std::vector<std::uint8_t> buckets{2, 3, 2, 0, 3};
  means.add(x.data(), buckets.data(), 5);
  std::vector<float> codebook(8);
  means.store(reinterpret_cast<std::byte*>(codebook.data()), 7.0F);
  CHECK(codebook == std::vector<float>{-8, 0, 2, 3.5F, 0, 0, 0, 0});
}

TEST_CASE("bucket means: sums are made in one order, of even and of odd places", "[compress][fast]") {
  // What is added to 2^53 is lost, so the order is seen in what is left when it goes again.
  std::vector<float> x(23);
  for (std::size_t i = 0; i < 23; ++i) x[i] = 1.0F + static_cast<float>(i) / 8;
  x[1] = x[2] = 0x1p53F;
  x[11] = x[14] = -0x1p53F;
  const auto expected = [&](const std::vector<std::uint8_t>& buckets, std::uint8_t bucket, bool backwards) {
    double sums[2] = {}, count = 0;
    for (std::size_t k = 0; k < 23; ++k) {
      const std::size_t i = backwards ? 22 - k : k;
      if (buckets[i] == bucket) sums[i % 2] += static_cast<double>(x[i]), ++count;
    }
    return count > 0 ? static_cast<float>((sums[0] + sums[1]) / count) : 0.0F;
  };
  const std::vector<std::uint8_t> one(23, 1);
  CHECK(expected(one, 1, false) != expected(one, 1, true));
  std::vector<std::uint8_t> apart(23);
  for (std::size_t i = 0; i < 23; ++i) apart[i] = static_cast<std::uint8_t>(i * i % 4 + i % 3 / 2);
  for (const auto& buckets : {one, apart}) {
    std::vector<float> means(256);
    parts::bucket_means<8> sums;
    sums.add(x.data(), buckets.data(), 23);
    sums.store(reinterpret_cast<std::byte*>(means.data()), 0.0F);
    for (std::uint8_t b = 0; b < 4; ++b) CHECK(means[b] == expected(buckets, b, false));
  }
}

TEST_CASE("bucket means: four buckets' are right to f32, in long and short rows, whatever the mean", "[compress][fast]") {
  for (const float shift : {0.0F, 0.3F, -1000.0F}) {
    for (const std::size_t n : {1U, 3U, 15U, 17U, 511U, 513U, 1000U, 30000U}) {
      auto x = codec_checks::values(n, 5);
      for (float& v : x) v += shift;
      std::vector<float> codebook(4);
      std::vector<std::byte> codes((n + 3) / 4);
      const auto count = static_cast<std::int64_t>(n);
      parts::encode_buckets<2>::run(x.data(), reinterpret_cast<std::byte*>(codebook.data()), codes.data(), count, 6.0F);
      double sums[4] = {}, numbers[4] = {}, largest = 0;
      for (std::size_t i = 0; i < n; ++i) {
        const auto code = std::to_integer<std::size_t>(codes[i / 4] >> (i % 4 * 2)) & 3U;
        sums[code] += static_cast<double>(x[i]), ++numbers[code];
        largest = std::max(largest, std::abs(static_cast<double>(x[i])));
      }
      INFO(n << " values about " << shift);
      for (std::size_t b = 0; b < 4; ++b) {
        const double mean = numbers[b] > 0 ? sums[b] / numbers[b] : 0.0;
        CHECK(static_cast<double>(codebook[b]) == Approx(mean).margin(2e-7 * largest).epsilon(0));
      }
    }
  }
}

TEST_CASE("bucket means: four buckets about the mean, one and a half deviations apart", "[compress][fast]") {
  // Mean 1 and, with n - 1 = 9, deviation 2: buckets about -5, -2, 1 and 4, cut at -3.5, -0.5 and 2.5.
  const std::vector<float> x{4, -2, 4, -2, 1, 1, 1, 1, 1, 1};
  std::vector<float> codebook(4);
  std::vector<std::byte> codes(3);
  parts::encode_buckets<2>::run(x.data(), reinterpret_cast<std::byte*>(codebook.data()), codes.data(), 10, 6.0F);
  CHECK(codebook == std::vector<float>{0, -2, 1, 4});
  CHECK(codec_checks::as_ints(codes) == std::vector<int>{0b01110111, 0b10101010, 0b1010});
  std::vector<std::byte> bytes(sizeof(float) * 4 + 3);
  std::memcpy(bytes.data(), codebook.data(), 16);
  std::memcpy(bytes.data() + 16, codes.data(), 3);
  CHECK(parts::check_codebook<2>(bytes, 10, "test"));
  CHECK(parts::check_codebook<2>(bytes, 9, "test").error().code == errc::corrupt);
}
