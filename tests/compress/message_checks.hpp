// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TESTS_COMPRESS_MESSAGE_CHECKS_HPP
#define CAUSEWAY_TESTS_COMPRESS_MESSAGE_CHECKS_HPP

// What every message codec must do, whatever it leaves out.

#include "compress/codec_checks.hpp"
#include "support/catch.hpp"

#include <causeway/compress/message.hpp>
#include <causeway/core/rng.hpp>

#include <cmath>

namespace message_checks {

using causeway::errc;
using causeway::thread_pool;
using causeway::compress::matrix_range;
using causeway::compress::message_context;

/// A row of two matrices and two vectors: 2,000 values that no tile of 64 divides, 8,192 that it does, 83 and 1,000.
inline const std::vector<matrix_range> matrices{{.offset = 0, .columns = 83},
                                                {.offset = 83, .rows = 40, .columns = 50},
                                                {.offset = 2083, .rows = 64, .columns = 128},
                                                {.offset = 10275, .columns = 1000}};
inline constexpr std::size_t row_size = 83 + 2000 + 8192 + 1000;

template <class C>
std::vector<std::byte> encode(const C& codec, const message_context& ctx, const std::vector<float>& x) {
  std::vector<std::byte> bytes(codec.most_bytes(ctx, x.size()) + 16, std::byte{0xA5});
  const std::size_t used = codec.encode(ctx, x, std::span{bytes}.first(bytes.size() - 16));
  REQUIRE(used <= bytes.size() - 16);
  for (std::size_t i = bytes.size() - 16; i < bytes.size(); ++i) REQUIRE(bytes[i] == std::byte{0xA5});
  bytes.resize(used);
  return bytes;
}

/// The values of a message: what is missing is zero.
template <class C>
std::vector<float> decode(const C& codec, const message_context& ctx, std::span<const std::byte> bytes, std::size_t n) {
  std::vector<float> values(n);
  const auto outcome = codec.decode_add(ctx, bytes, values, 1.0F, {});
  if (!outcome) FAIL(outcome.error().text());
  if constexpr (causeway::compress::codec_traits{C::traits}.transform) codec.inverse(ctx, values);
  return values;
}

/// What a row becomes by one message.
template <class C>
auto trip_of(const C& codec, const message_context& ctx) {
  return [&codec, ctx](const std::vector<float>& x) { return decode(codec, ctx, encode(codec, ctx, x), x.size()); };
}

/// `make(pool)` gives the context. The same bytes and sums whatever the number of threads.
template <class C, class Make>
void check_threads(const C& codec, Make&& make, const std::vector<float>& x) {
  thread_pool alone{1}, three{3};
  const message_context one = make(alone), many = make(three);
  const auto bytes = encode(codec, one, x);
  CHECK(encode(codec, many, x) == bytes);
  auto a = codec_checks::values(x.size(), 7), b = a;
  std::vector<float> counts_a(x.size(), 0.5F), counts_b = counts_a;
  REQUIRE(codec.decode_add(one, bytes, a, 0.25F, counts_a));
  REQUIRE(codec.decode_add(many, bytes, b, 0.25F, counts_b));
  if constexpr (causeway::compress::codec_traits{C::traits}.transform) codec.inverse(one, a), codec.inverse(many, b);
  CHECK(codec_checks::same_bits(a, b));
  CHECK(codec_checks::same_bits(counts_a, counts_b));
}

/// Decodes bytes that are wrong: nothing may be added, and the error must be one a decoder may give.
template <class C>
errc refused(const C& codec, const message_context& ctx, std::span<const std::byte> bytes, std::size_t n) {
  const auto before = codec_checks::values(n, 3);
  auto sum = before, counts = before;
  const auto outcome = codec.decode_add(ctx, bytes, sum, 2.0F, counts);
  REQUIRE_FALSE(outcome);
  CHECK(codec_checks::same_bits(sum, before));
  CHECK(codec_checks::same_bits(counts, before));
  return outcome.error().code;
}

/// Random damage to a good message: either refused without a trace, or finite values come of it. Each length but the right
/// one is refused where `exact_length` is set. Copies lie in memory of just their size, so that a sanitizer sees overreads.
template <class C>
void fuzz(const C& codec, const message_context& ctx, const std::vector<float>& x, int rounds, bool exact_length = true) {
  const auto good = encode(codec, ctx, x);
  causeway::rng random{99};
  int refusals = 0;
  for (int round = 0; round < rounds; ++round) {
    std::vector<std::byte> bytes = good;
    const bool cut = round % 3 == 0;
    if (cut && !bytes.empty()) bytes.resize(random.below(bytes.size()));
    if (round % 7 == 0) bytes.push_back(std::byte{0});
    for (int hit = 0; hit < 1 + round % 4 && !bytes.empty(); ++hit) {
      const std::size_t window = round % 2 == 0 ? bytes.size() : std::min<std::size_t>(bytes.size(), 24);
      bytes[random.below(window)] = static_cast<std::byte>(random.below(256));
    }
    bytes = std::vector<std::byte>(bytes.begin(), bytes.end());
    const auto before = codec_checks::values(x.size(), 3);
    auto sum = before, counts = before;
    const auto outcome = codec.decode_add(ctx, bytes, sum, 1.0F, counts);
    if (outcome) {
      if (exact_length) REQUIRE(bytes.size() == good.size());
      continue;
    }
    ++refusals;
    const errc code = outcome.error().code;
    REQUIRE((code == errc::protocol || code == errc::corrupt || code == errc::non_finite));
    REQUIRE(codec_checks::same_bits(sum, before));
    REQUIRE(codec_checks::same_bits(counts, before));
  }
  CHECK(refusals > rounds / 4);
}

/// Error feedback over `rounds` rounds: what was sent plus what is kept is what came in (target E5), up to rounding.
template <class C, class Make>
void check_conservation(const C& codec, Make&& make, std::size_t n, std::uint64_t rounds) {
  thread_pool pool{1};
  std::vector<double> in(n), sent(n);
  std::vector<float> residual(n), x(n), kept(n);
  double size = 0;
  for (std::uint64_t round = 0; round < rounds; ++round) {
    const message_context ctx = make(pool, round);
    const auto fresh = codec_checks::values(n, 100 + round);
    for (std::size_t i = 0; i < n; ++i) {
      in[i] += static_cast<double>(fresh[i]);
      size = std::max(size, std::abs(in[i]));
      x[i] = residual[i] + fresh[i];
    }
    const auto bytes = encode(codec, ctx, x);
    REQUIRE(residual_of(codec, ctx, x, bytes, kept));
    const auto values = decode(codec, ctx, bytes, n);
    for (std::size_t i = 0; i < n; ++i) sent[i] += static_cast<double>(values[i]);
    residual = kept;
  }
  double worst = 0, moved = 0;
  for (std::size_t i = 0; i < n; ++i) {
    worst = std::max(worst, std::abs(sent[i] + static_cast<double>(residual[i]) - in[i]));
    moved += std::abs(sent[i]);
  }
  CHECK(worst < 3e-7 * size * static_cast<double>(rounds));
  CHECK(moved > 0);
}

}  // namespace message_checks

#endif  // CAUSEWAY_TESTS_COMPRESS_MESSAGE_CHECKS_HPP
