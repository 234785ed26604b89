// SPDX-License-Identifier: Apache-2.0
#include <causeway/compress/index_set.hpp>

#include "support/catch.hpp"

#include <causeway/core/rng.hpp>

#include <algorithm>
#include <cmath>
#include <set>
#include <vector>

using namespace causeway;
using namespace causeway::compress;

namespace {

std::vector<std::uint32_t> random_set(std::uint32_t count, std::uint32_t bound, std::uint64_t seed) {
  rng random{seed, bound};
  std::set<std::uint32_t> chosen;
  while (chosen.size() < count) chosen.insert(static_cast<std::uint32_t>(random.below(bound)));
  return {chosen.begin(), chosen.end()};
}

std::vector<std::byte> written(const index_layout& layout, const std::vector<std::uint32_t>& indices) {
  std::vector<std::byte> bytes(bytes_of_bits(layout.bits));
  bit_writer out{bytes};
  write_indices(out, layout, indices);
  out.finish();
  return bytes;
}

}  // namespace

TEST_CASE("index sets: sizes follow the formulas", "[compress][fast]") {
  CHECK(layout_of(index_form::packed, 64, 4096).bits == 64 * 12);
  CHECK(layout_of(index_form::bitmask, 64, 4096).bits == 4096);
  CHECK(layout_of(index_form::elias_fano, 64, 4096).bits == 64 * 6 + 128);  // five low bits, or six
  CHECK(layout_of(index_form::smallest, 64, 4096).form == index_form::elias_fano);
  CHECK(layout_of(index_form::smallest, 1, 4096).form == index_form::packed);
  CHECK(layout_of(index_form::smallest, 2000, 4096).form == index_form::bitmask);
  CHECK(layout_of(index_form::smallest, 1, 1).bits == 0);
  CHECK(layout_of(index_form::smallest, 0, 4096).bits == 0);
}

TEST_CASE("index sets: the smallest form is within 0.7 bits an index of the best possible", "[compress][fast]") {
  for (const std::uint32_t count : {8U, 32U, 64U, 128U, 820U, 2048U}) {
    double best = 0;  // log2 of 4096 over count
    for (std::uint32_t i = 0; i < count; ++i) best += std::log2((4096.0 - i) / (count - i));
    const auto bits = static_cast<double>(layout_of(index_form::smallest, count, 4096).bits);
    CHECK(bits >= best);
    CHECK(bits <= best + 0.7 * count + 2);
  }
}

TEST_CASE("index sets: every form gives back what was written, at any bit", "[compress][fast]") {
  const auto form = GENERATE(index_form::packed, index_form::bitmask, index_form::elias_fano, index_form::smallest);
  for (const auto& [count, bound] : std::vector<std::pair<std::uint32_t, std::uint32_t>>{
           {0, 0}, {0, 7}, {1, 1}, {1, 2}, {3, 3}, {5, 64}, {64, 64}, {64, 4096}, {31, 4095}, {820, 4096}, {40, 100000}}) {
    INFO(count << " of " << bound);
    const index_layout layout = layout_of(form, count, bound);
    const auto indices = random_set(count, bound, 5);
    std::vector<std::uint32_t> back(count, 99);
    const auto bytes = written(layout, indices);
    REQUIRE(read_indices(bit_reader{bytes}, 0, layout, back));
    CHECK(back == indices);
    CHECK(bit_reader{bytes}.zero_from(layout.bits));
    std::vector<std::byte> twice(bytes_of_bits(2 * layout.bits + 3));
    bit_writer out{twice};
    out.put(5, 3);
    write_indices(out, layout, indices);
    write_indices(out, layout, indices);
    out.finish();
    for (const std::size_t at : {std::size_t{3}, 3 + layout.bits}) {
      back.assign(count, 99);
      REQUIRE(read_indices(bit_reader{twice}, at, layout, back));
      CHECK(back == indices);
    }
  }
}

TEST_CASE("index sets: the ends of a huge range", "[compress][fast]") {
  constexpr std::uint32_t bound = 0xFFFFFFFFU;
  const std::vector<std::uint32_t> indices{0, 1, 0x7FFFFFFF, bound - 2, bound - 1};
  for (const auto form : {index_form::packed, index_form::elias_fano, index_form::smallest}) {
    const index_layout layout = layout_of(form, 5, bound);
    std::vector<std::uint32_t> back(5);
    REQUIRE(read_indices(bit_reader{written(layout, indices)}, 0, layout, back));
    CHECK(back == indices);
  }
}

TEST_CASE("index sets: indices that repeat, descend or leave the range are refused", "[compress][fast]") {
  std::vector<std::uint32_t> room(3);
  const index_layout packed = layout_of(index_form::packed, 3, 100);  // seven bits
  const auto reads = [&](const std::vector<std::uint32_t>& codes) {
    std::vector<std::byte> bytes(3);
    bit_writer out{bytes};
    for (const std::uint32_t c : codes) out.put(c, 7);
    out.finish();
    return read_indices(bit_reader{bytes}, 0, packed, room);
  };
  CHECK(reads({0, 50, 99}));
  CHECK_FALSE(reads({0, 0, 99}));
  CHECK_FALSE(reads({5, 4, 99}));
  CHECK_FALSE(reads({0, 50, 100}));
  CHECK_FALSE(reads({0, 50, 127}));
}

TEST_CASE("index sets: masks with too many or too few ones are refused", "[compress][fast]") {
  const auto form = GENERATE(index_form::bitmask, index_form::elias_fano);
  const index_layout layout = layout_of(form, 10, 200);
  const auto good = written(layout, random_set(10, 200, 3));
  std::vector<std::uint32_t> room(10);
  REQUIRE(read_indices(bit_reader{good}, 0, layout, room));
  const std::size_t first = form == index_form::bitmask ? 0 : std::size_t{10} * layout.low_bits;
  int changed = 0;
  for (std::size_t bit = first; bit < layout.bits; ++bit) {
    auto bad = good;
    bad[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
    CHECK_FALSE(read_indices(bit_reader{bad}, 0, layout, room));  // one more or one fewer
    ++changed;
  }
  CHECK(changed > 15);
  CHECK_FALSE(read_indices(bit_reader{std::vector<std::byte>(good.size(), std::byte{0xFF})}, 0, layout, room));
}

TEST_CASE("index sets: any bits are refused or are a set, in memory of their size", "[compress][fast]") {
  rng random{8};
  int good = 0, bad = 0;
  for (int round = 0; round < 30000; ++round) {
    const auto form = static_cast<index_form>(random.below(4));
    const auto bound = static_cast<std::uint32_t>(1 + random.below(40));
    const auto count = static_cast<std::uint32_t>(random.below(std::min(bound, 5U)));
    const index_layout layout = layout_of(form, count, bound);
    std::vector<std::byte> bytes(random.below(bytes_of_bits(layout.bits) + 1));
    for (auto& b : bytes) b = static_cast<std::byte>(random.below(256) & random.below(256));
    std::vector<std::uint32_t> indices(count);
    if (!read_indices(bit_reader{bytes}, 0, layout, indices)) {
      ++bad;
      continue;
    }
    ++good;
    for (std::size_t i = 0; i < count; ++i) {
      REQUIRE(indices[i] < bound);
      if (i > 0) REQUIRE(indices[i] > indices[i - 1]);
    }
  }
  CHECK(good > 1000);
  CHECK(bad > 1000);
}
