// SPDX-License-Identifier: Apache-2.0
#include <causeway/core/rng.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <random>
#include <set>
#include <tuple>
#include <vector>

#include "support/catch.hpp"

using namespace causeway;

namespace {

// An archive for one direction or the other, over a list of numbers.
struct number_archive {
  std::vector<std::uint64_t> numbers;
  bool reading = false;
  std::size_t at = 0;

  template <class... Ts>
  void operator()(Ts&... values) {
    (one(values), ...);
  }
  void one(std::uint64_t& value) {
    if (reading) {
      value = numbers.at(at++);
    } else {
      numbers.push_back(value);
    }
  }
};

}  // namespace

TEST_CASE("philox: agrees with the published test vectors", "[core][fast]") {
  // Random123, kat_vectors, philox4x32 10 rounds. The key's two words are low and high half of ours.
  CHECK(philox({0, 0, 0, 0}, 0) == std::array<std::uint32_t, 4>{0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8});
  CHECK(philox({0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF}, 0xFFFFFFFFFFFFFFFF) ==
        std::array<std::uint32_t, 4>{0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD});
  CHECK(philox({0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344}, 0x299F31D0A4093822) ==
        std::array<std::uint32_t, 4>{0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1});
}

TEST_CASE("rng: seed and stream decide the sequence, and nothing else", "[core][fast]") {
  rng a{5, 9};
  rng b{5, 9};
  rng other_stream{5, 10};
  rng other_seed{6, 9};
  std::set<std::uint64_t> seen;
  for (int i = 0; i < 1000; ++i) {
    const std::uint64_t draw = a.next();
    CHECK(draw == b.next());
    seen.insert({draw, other_stream.next(), other_seed.next()});
  }
  CHECK(seen.size() == 3000);
}

TEST_CASE("rng: a saved generator goes on where it was", "[core][fast]") {
  rng original{3, 1};
  for (int i = 0; i < 17; ++i) original.next();
  number_archive archive;
  original.serialize(archive);
  archive.reading = true;
  rng restored;
  restored.serialize(archive);
  CHECK(restored == original);
  CHECK(restored.next() == original.next());
}

TEST_CASE("rng: uniform numbers fill [0, 1) evenly", "[core][fast]") {
  rng draw{1};
  std::array<int, 16> bins{};
  constexpr int count = 160'000;
  for (int i = 0; i < count; ++i) {
    const float u = draw.uniform();
    REQUIRE((u >= 0.0F && u < 1.0F));
    ++bins[static_cast<std::size_t>(u * 16.0F)];
  }
  // 10,000 expected in each, standard deviation 97; the seed is fixed, so this cannot fail by chance.
  for (const int n : bins) CHECK(std::abs(n - count / 16) < 5 * 97);
}

TEST_CASE("rng: numbers below a bound are unbiased and reach both ends", "[core][fast]") {
  rng draw{2};
  std::array<int, 7> bins{};
  for (int i = 0; i < 70'000; ++i) ++bins[draw.below(7)];
  for (const int n : bins) CHECK(std::abs(n - 10'000) < 5 * 93);
  for (int i = 0; i < 100; ++i) CHECK(draw.below(1) == 0);
  // A bound just above 2^63: a plain remainder would give the lower half twice as often.
  const std::uint64_t bound = (std::uint64_t{1} << 63U) + (std::uint64_t{1} << 62U);
  int low = 0;
  for (int i = 0; i < 30'000; ++i) low += draw.below(bound) < bound / 3 ? 1 : 0;
  CHECK(std::abs(low - 10'000) < 5 * 82);
}

TEST_CASE("rng: normal numbers have mean 0, variance 1 and both tails", "[core][fast]") {
  rng draw{3};
  constexpr int count = 200'000;
  double sum = 0;
  double squares = 0;
  int beyond_two = 0;
  for (int i = 0; i < count; ++i) {
    const double x = static_cast<double>(draw.normal());
    REQUIRE(std::isfinite(x));
    sum += x;
    squares += x * x;
    beyond_two += std::abs(x) > 2 ? 1 : 0;
  }
  CHECK(std::abs(sum / count) < 5 / std::sqrt(count));
  CHECK(squares / count == Approx(1.0).margin(5 * std::sqrt(2.0 / count)));
  CHECK(static_cast<double>(beyond_two) / count == Approx(0.0455).margin(0.0025));
}

TEST_CASE("mix: small integers in any order give different streams", "[core][fast]") {
  std::set<std::uint64_t> seen;
  for (std::uint64_t a = 0; a < 20; ++a) {
    for (std::uint64_t b = 0; b < 20; ++b) {
      for (std::uint64_t c = 0; c < 20; ++c) seen.insert(mix(a, b, c));
    }
  }
  CHECK(seen.size() == 8000);
  static_assert(mix(1, 2, 3) == mix(1, 2, 3), "usable in constant expressions");
}

TEST_CASE("rng: usable in constant expressions and as a standard generator", "[core][fast]") {
  static_assert(philox({0, 0, 0, 0}, 0)[0] == 0x6627E8D5);
  static_assert(rng{}.next() == 0xE169C58D6627E8D5);  // the vector above: low word first
  static_assert([] {
    rng draw{1, 2};
    const float u = draw.uniform();
    return u >= 0.0F && u < 1.0F && draw.below(10) < 10 && draw != rng{1, 2};
  }());
  static_assert(std::uniform_random_bit_generator<rng>);
}

TEST_CASE("rng: the position is the counter's lower half and the stream its upper half", "[core][fast]") {
  // So the n-th number can be had without the n - 1 before it.
  rng draw{0x299F31D0A4093822, 0x0370734413198A2E};
  for (std::uint32_t n = 0; n < 100; ++n) {
    const auto words = philox({n, 0, 0x13198A2E, 0x03707344}, 0x299F31D0A4093822);
    REQUIRE(draw.next() == ((std::uint64_t{words[1]} << 32U) | words[0]));
  }
}

TEST_CASE("rng: neighbouring streams, seeds and positions share half of their bits, no more", "[core][fast]") {
  // 64,000 fair bits: expected 32,000 equal, standard deviation 126; each output bit alone: 500 and 15.8.
  const auto check = [](auto first, auto second) {
    int equal = 0;
    std::array<int, 64> by_bit{};
    for (std::uint64_t i = 0; i < 1000; ++i) {
      const std::uint64_t same = ~(first(i) ^ second(i));
      equal += std::popcount(same);
      for (std::size_t bit = 0; bit < 64; ++bit) by_bit[bit] += static_cast<int>(same >> bit & 1U);
    }
    CHECK(std::abs(equal - 32'000) < 5 * 126);
    for (const int n : by_bit) CHECK(std::abs(n - 500) < 5 * 16);
  };
  const auto of = [](std::uint64_t seed, std::uint64_t stream) { return rng{seed, stream}.next(); };
  check([&](auto i) { return of(7, i); }, [&](auto i) { return of(7, i + 1); });
  check([&](auto i) { return of(i, 7); }, [&](auto i) { return of(i + 1, 7); });
  check([&](auto i) { return of(i, 7); }, [&](auto i) { return of(7, i); });
  rng leading{7};
  rng trailing{7};
  leading.next();
  check([&](auto) { return leading.next(); }, [&](auto) { return trailing.next(); });
}

TEST_CASE("rng: numbers stay below every kind of bound", "[core][fast]") {
  rng draw{4};
  for (unsigned bits = 0; bits < 64; ++bits) {
    const std::uint64_t power = std::uint64_t{1} << bits;
    for (const std::uint64_t bound : {power, power + 1, 2 * power - 1}) {
      for (int i = 0; i < 20; ++i) REQUIRE(draw.below(bound) < bound);
    }
  }
  CHECK(draw.below(rng::max()) < rng::max());
}

TEST_CASE("rng: normal numbers have the skewness and kurtosis of the bell curve", "[core][fast]") {
  rng draw{5};
  constexpr int count = 200'000;
  double cubes = 0;
  double fourths = 0;
  double neighbours = 0;
  double last = 0;
  for (int i = 0; i < count; ++i) {
    const double x = static_cast<double>(draw.normal());
    cubes += x * x * x;
    fourths += x * x * x * x;
    neighbours += x * last;
    last = x;
  }
  // Variances of x^3, x^4 and of the product of two: 15, 96 and 1.
  CHECK(std::abs(cubes / count) < 5 * std::sqrt(15.0 / count));
  CHECK(std::abs(fourths / count - 3) < 5 * std::sqrt(96.0 / count));
  CHECK(std::abs(neighbours / count) < 5 / std::sqrt(count));
}

TEST_CASE("rng: normal numbers fill equal parts of the bell curve evenly, and its tail beyond the layers", "[core][fast]") {
  rng draw{6};
  constexpr int count = 1'000'000;
  constexpr int parts = 50;
  std::array<int, parts> bins{};
  int tail = 0;
  for (int i = 0; i < count; ++i) {
    const double x = static_cast<double>(draw.normal());
    const double below = 0.5 * std::erfc(-x / std::sqrt(2.0));
    ++bins[static_cast<std::size_t>(std::min(parts - 1, static_cast<int>(below * parts)))];
    tail += std::abs(x) > 3.6541528853610088 ? 1 : 0;
  }
  for (const int n : bins) CHECK(std::abs(n - count / parts) < 5 * 140);
  CHECK(std::abs(tail - 258) < 5 * 16);
}

TEST_CASE("rng: normal numbers of a seed are those of every machine", "[core][fast]") {
  rng draw{7, 8};
  std::array<float, 4> first{};
  for (float& x : first) x = draw.normal();
  CHECK(first == std::array{-0.113097861F, 0.229396656F, 0.0396927297F, -0.401732326F});
}
