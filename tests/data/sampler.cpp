// SPDX-License-Identifier: Apache-2.0
#include <causeway/data/batcher.hpp>

#include "support/catch.hpp"

#include <algorithm>
#include <cmath>
#include <set>
#include <vector>

namespace cw = causeway;
namespace data = causeway::data;

TEST_CASE("permutation: visits every index exactly once, for all small sizes", "[data][fast]") {
  for (std::uint64_t size = 1; size <= 300; ++size) {
    const data::permutation order{size, 11, size};
    std::vector<bool> seen(size, false);
    for (std::uint64_t i = 0; i < size; ++i) {
      const std::uint64_t to = order(i);
      REQUIRE(to < size);
      REQUIRE_FALSE(seen[to]);
      seen[to] = true;
    }
  }
}

TEST_CASE("permutation: a large one is a permutation, also around powers of two", "[data][fast]") {
  for (const std::uint64_t size : {65'535U, 65'536U, 65'537U, 100'003U}) {
    const data::permutation order{size, 3, 4};
    std::vector<bool> seen(size, false);
    for (std::uint64_t i = 0; i < size; ++i) seen[order(i)] = true;
    CHECK(std::count(seen.begin(), seen.end(), true) == static_cast<std::ptrdiff_t>(size));
  }
  const data::permutation huge{std::uint64_t{1} << 62U, 3, 4};
  CHECK(huge(0) != huge(1));
  CHECK(huge((std::uint64_t{1} << 62U) - 1) < huge.size());
}

TEST_CASE("permutation: spreads like a shuffle", "[data][fast]") {
  constexpr std::uint64_t size = 10'000;
  const data::permutation order{size, 1, 1};
  // Neighbours must land apart: the mean distance of a random pair is a third of the size.
  double distance = 0;
  int fixed_points = 0;
  for (std::uint64_t i = 0; i + 1 < size; ++i) {
    distance += std::abs(static_cast<double>(order(i)) - static_cast<double>(order(i + 1)));
    fixed_points += order(i) == i ? 1 : 0;
  }
  CHECK(distance / size == Approx(size / 3.0).epsilon(0.02));
  CHECK(fixed_points < 8);
  // Chi-squared over 10×10 cells of (from, to): 81 degrees of freedom, standard deviation 13.
  double chi = 0;
  std::vector<int> cells(100, 0);
  for (std::uint64_t i = 0; i < size; ++i) ++cells[i / 1000 * 10 + order(i) / 1000];
  for (const int n : cells) chi += (n - 100.0) * (n - 100.0) / 100.0;
  CHECK(chi > 81 - 4 * 13);
  CHECK(chi < 81 + 4 * 13);
}

TEST_CASE("sampler: each epoch has each window once, in another order, within the tokens", "[data][fast]") {
  for (const std::int64_t tokens : {17, 33, 100, 1000, 5003}) {
    for (const bool shift : {false, true}) {
      const auto order = data::sampler::make(tokens, {.context_length = 16, .seed = 9, .shift_grid = shift}).value();
      const auto windows = static_cast<std::uint64_t>(order.windows());
      std::vector<std::vector<std::int64_t>> sequence(3);
      for (std::uint64_t epoch = 0; epoch < 3; ++epoch) {
        std::set<std::int64_t> seen;
        for (std::uint64_t i = 0; i < windows; ++i) {
          const data::sample s = order.sample_at(epoch * windows + i);
          REQUIRE(s.epoch == epoch);
          REQUIRE(s.first >= 0);
          REQUIRE(s.first + 16 + 1 <= tokens);
          REQUIRE(s.first == order.offset_of(epoch) + 16 * s.window);
          seen.insert(s.first);
          sequence[epoch].push_back(s.window);
        }
        REQUIRE(seen.size() == windows);
      }
      if (windows > 10) CHECK(sequence[0] != sequence[1]);
    }
  }
}

TEST_CASE("sampler: without a shift nothing but the tail is left out; with it less than two windows are", "[data][fast]") {
  for (std::int64_t tokens = 1100; tokens < 1140; ++tokens) {
    const auto plain = data::sampler::make(tokens, {.context_length = 16, .shift_grid = false}).value();
    CHECK(plain.windows() == (tokens - 1) / 16);
    CHECK(plain.offset_of(5) == 0);
    const auto shifted = data::sampler::make(tokens, {.context_length = 16}).value();
    CHECK(tokens - shifted.windows() * 16 < 2 * 16);
    std::set<std::int64_t> offsets;
    for (std::uint64_t epoch = 0; epoch < 400; ++epoch) offsets.insert(shifted.offset_of(epoch));
    CHECK(offsets.size() == 16);
  }
}

TEST_CASE("sampler: a pure function of seed and number", "[data][fast]") {
  const data::sampler_options options{.context_length = 8, .seed = 5};
  const auto a = data::sampler::make(10'000, options).value();
  const auto b = data::sampler::make(10'000, options).value();
  const auto other = data::sampler::make(10'000, {.context_length = 8, .seed = 6}).value();
  int differ = 0;
  for (std::uint64_t n = 5000; n-- > 0;) {
    REQUIRE(a.sample_at(n) == b.sample_at(n));
    differ += a.sample_at(n) == other.sample_at(n) ? 0 : 1;
  }
  CHECK(differ > 4900);
  CHECK(a.hash() == b.hash());
  CHECK(a.hash() != other.hash());
  CHECK(a.hash() != data::sampler::make(10'001, options).value().hash());
}

TEST_CASE("sampler: the order is the same on every machine and in every release", "[data][fast]") {
  const auto order = data::sampler::make(1'000'000, {.context_length = 256, .seed = 1}).value();
  const std::vector<std::int64_t> expected{298652, 510364, 590748, 717212, 409532, 475324};
  for (std::size_t n = 0; n < expected.size(); ++n) CHECK(order.sample_at(n * 1000).first == expected[n]);
}

TEST_CASE("sampler: too few tokens is bad_text that says how many are needed", "[data][fast]") {
  CHECK(data::sampler::make(9, {.context_length = 8}).value().windows() == 1);
  const auto outcome = data::sampler::make(8, {.context_length = 8});
  REQUIRE_FALSE(outcome);
  CHECK(outcome.error().code == cw::errc::bad_text);
  CHECK(outcome.error().message.find("8 tokens") != std::string::npos);
  CHECK(outcome.error().message.find("needs 9") != std::string::npos);
  CHECK(data::sampler::make(8, {}).error().code == cw::errc::invalid_argument);
}

TEST_CASE("sampler: of a shard, each epoch has each of its windows once, in another order", "[data][fast]") {
  const std::vector<std::uint32_t> shard{1, 4, 5, 7};
  const auto s = data::sampler::make(101, {.context_length = 10, .seed = 3, .shift_grid = false, .only = shard});
  REQUIRE(s);
  CHECK(s->windows() == 4);
  std::vector<std::vector<std::int64_t>> epochs;
  for (std::uint64_t epoch = 0; epoch < 8; ++epoch) {
    std::vector<std::int64_t> windows;
    for (std::uint64_t i = 0; i < 4; ++i) {
      const data::sample at = s->sample_at(epoch * 4 + i);
      CHECK(at.epoch == epoch);
      CHECK(at.first == at.window * 10);
      windows.push_back(at.window);
    }
    epochs.push_back(windows);
    std::sort(windows.begin(), windows.end());
    CHECK(windows == std::vector<std::int64_t>{1, 4, 5, 7});
  }
  CHECK(std::set<std::vector<std::int64_t>>(epochs.begin(), epochs.end()).size() > 2);

  const auto whole = data::sampler::make(101, {.context_length = 10, .seed = 3, .shift_grid = false});
  const auto other = data::sampler::make(101, {.context_length = 10, .seed = 3, .shift_grid = false, .only = {1, 4, 5, 8}});
  CHECK(std::set<std::uint64_t>{s->hash(), whole->hash(), other->hash()}.size() == 3);
}

TEST_CASE("sampler: refuses windows that there are none of, and a shard of a grid that moves", "[data][fast]") {
  const auto made = [](std::vector<std::uint32_t> only, bool shift) {
    return data::sampler::make(1001, {.context_length = 10, .shift_grid = shift, .only = std::move(only)});
  };
  CHECK(made({99}, false));
  CHECK(made({100}, false).error().code == cw::errc::invalid_argument);
  CHECK(made({99}, true).error().code == cw::errc::invalid_argument);
}
