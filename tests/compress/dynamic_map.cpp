// SPDX-License-Identifier: Apache-2.0
#include <causeway/compress/dynamic_map.hpp>

#include "support/catch.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

using causeway::compress::dynamic_map;

namespace {

double level(int l) { return double{dynamic_map::instance().levels()[l]}; }

/// By the table, as the codec does.
int level_of(float y) {
  const auto bits = std::bit_cast<std::uint32_t>(y);
  const std::uint32_t rest = (std::signbit(y) ? ~bits : bits) & dynamic_map::cut_mask;
  return static_cast<int>((dynamic_map::instance().cells()[bits >> dynamic_map::cut_bits] + rest) >> dynamic_map::cut_bits);
}

/// Whether no other level is nearer.
bool is_nearest(int l, float y) {
  for (int other = 0; other < 256; ++other) {
    if (std::abs(level(other) - double{y}) < std::abs(level(l) - double{y})) return false;
  }
  return true;
}

}  // namespace

TEST_CASE("dynamic map: levels are those of bitsandbytes", "[compress][fast]") {
  CHECK(level(127) == 0.0);
  CHECK(level(255) == 1.0);
  for (const int sign : {1, -1}) {
    CHECK(level(127 + sign * 1) == Approx(sign * 5.5e-7));
    CHECK(level(127 + sign * 2) == Approx(sign * 3.25e-6));
    CHECK(level(127 + sign * 3) == Approx(sign * 7.75e-6));
    CHECK(level(127 + sign * 63) == Approx(sign * 0.09859375).epsilon(1e-6));
    CHECK(level(127 + sign * 64) == Approx(sign * 0.10703125).epsilon(1e-6));
    CHECK(level(127 + sign * 126) == Approx(sign * 0.97890625).epsilon(1e-6));
    CHECK(level(127 + sign * 127) == Approx(sign * 0.99296875).epsilon(1e-6));
  }
  for (int l = 1; l < 256; ++l) CHECK(level(l) > level(l - 1));
}

TEST_CASE("dynamic map: the table gives the nearest level, on both sides of every border and within each cell",
          "[compress][fast]") {
  const float infinity = std::numeric_limits<float>::infinity();
  int wrong = 0;
  const auto look = [&](float y) { wrong += is_nearest(level_of(y), y) ? 0 : 1; };
  for (int l = 1; l < 256; ++l) {
    const auto border = static_cast<float>((level(l - 1) + level(l)) / 2);
    const float below = std::nextafter(border, -infinity), above = std::nextafter(border, infinity);
    look(std::nextafter(below, -infinity)), look(below), look(above), look(std::nextafter(above, infinity));
    look(static_cast<float>(level(l)));
  }
  for (std::uint32_t bits = 0x34000000U; bits < 0x3F810000U; bits += 0x5000U) {  // 2^-23 to 1.008, in thirds of cells
    look(std::bit_cast<float>(bits)), look(-std::bit_cast<float>(bits));
  }
  for (const float y : {0.0F, -0.0F, 1e-30F, -1e-30F, 1e-7F, -1.0F}) look(y);
  CHECK(wrong == 0);
}

TEST_CASE("dynamic map: no two borders share a cell", "[compress][fast]") {
  std::uint32_t last = 0;
  for (int l = dynamic_map::zero; l < 255; ++l) {
    const auto cell =
        std::bit_cast<std::uint32_t>(static_cast<float>((level(l) + level(l + 1)) / 2)) >> dynamic_map::cut_bits;
    CHECK(cell > last);
    last = cell;
  }
}
