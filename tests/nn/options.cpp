// SPDX-License-Identifier: Apache-2.0
#include <causeway/nn/options.hpp>

#include <string>

#include "support/catch.hpp"

namespace causeway::nn {

using Catch::Matchers::Contains;

TEST_CASE("options: a size outside its range names itself and the range", "[nn][fast]") {
  CHECK(detail::check_sizes("gpt2", {{"layers", 1, 4}, {"width", 4, 4}}));
  auto low = detail::check_sizes("gpt2", {{"layers", 0, 4}});
  REQUIRE_FALSE(low);
  CHECK(low.error().code == errc::invalid_argument);
  CHECK_THAT(low.error().text(), Contains("layers is 0") && Contains("between 1 and 4"));
  auto high = detail::check_sizes("gpt2", {{"layers", 5, 4}});
  REQUIRE_FALSE(high);
  CHECK(high.error().code == errc::too_large);
}

TEST_CASE("options: heads that do not divide the width are answered with those that would", "[nn][fast]") {
  auto wrong = detail::check_divides("gpt2", "heads", 5, "width", 64);
  REQUIRE_FALSE(wrong);
  CHECK_THAT(wrong.error().text(), Contains("heads (5) does not divide width (64)") && Contains("1, 2, 4, 8"));
  CHECK(detail::check_divides("gpt2", "heads", 4, "width", 64));
}

TEST_CASE("options: of many divisors the nearest six are named, ascending", "[nn][fast]") {
  CHECK(detail::divisors_near(768, 13) == "3, 4, 6, 8, 12, 16");
  CHECK(detail::divisors_near(7, 3) == "1, 7");
  CHECK(detail::divisors_near(1, 1) == "1");
}

TEST_CASE("options: fractions and positive numbers refuse NaN", "[nn][fast]") {
  CHECK(detail::check_fraction("gpt2", "dropout", 0.0F));
  CHECK_FALSE(detail::check_fraction("gpt2", "dropout", 1.0F));
  CHECK_FALSE(detail::check_fraction("gpt2", "dropout", -0.1F));
  CHECK_FALSE(detail::check_fraction("gpt2", "dropout", 0.0F / 0.0F));
  CHECK(detail::check_positive("gpt2", "epsilon", 1e-5F));
  CHECK_FALSE(detail::check_positive("gpt2", "epsilon", 0.0F));
  CHECK_FALSE(detail::check_positive("gpt2", "epsilon", 1.0F / 0.0F));
}

TEST_CASE("options: more parameters than the library can count is an error", "[nn][fast]") {
  CHECK(detail::check_count("gpt2", 1e12));
  CHECK_FALSE(detail::check_count("gpt2", 1.2e12));
}

}  // namespace causeway::nn
