// SPDX-License-Identifier: Apache-2.0
#include <causeway/plan/availability.hpp>

#include <causeway/core/rng.hpp>

#include <cmath>
#include <cstddef>
#include <vector>

#include "support/catch.hpp"

using namespace causeway;

TEST_CASE("the coefficients of a made-up series are found again", "[plan][fast]") {
  rng draw{71};
  std::vector<std::size_t> series;
  double x = 40;
  for (int t = 0; t < 4000; ++t) {
    x = 32 + 0.8 * (x - 32) + 2 * double(draw.normal());
    series.push_back(static_cast<std::size_t>(std::llround(std::max(0.0, x))));
  }
  const auto m = plan::fit_availability(series);
  CHECK(m.mean == Approx(32).margin(0.7));
  CHECK(m.phi == Approx(0.8).margin(0.04));
  CHECK(m.sigma == Approx(2).margin(0.15));
}

TEST_CASE("a forecast leads from the last number to the mean, and never below nothing", "[plan][fast]") {
  CHECK(plan::forecast({20, 0.5, 1}, 28, 4) == std::vector<std::size_t>{24, 22, 21, 21});
  CHECK(plan::forecast({1, 1, 0}, 0, 2) == std::vector<std::size_t>{0, 0});
  CHECK(plan::forecast(plan::fit_availability(std::vector<std::size_t>{7, 7, 7, 7}), 7, 2) ==
        std::vector<std::size_t>{7, 7});
  CHECK(plan::forecast(plan::fit_availability(std::vector<std::size_t>{7, 5}), 5, 1) == std::vector<std::size_t>{5});
  CHECK(plan::forecast(plan::fit_availability({}), 3, 0).empty());
}
