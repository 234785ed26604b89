// SPDX-License-Identifier: Apache-2.0
#include <causeway/train/unusable_rows.hpp>

#include "support/catch.hpp"

#include <cstdint>
#include <string>
#include <string_view>

using namespace causeway;

TEST_CASE("unusable rows: each in a row costs twice as many rounds, up to 16, and the ninth ends the peer",
          "[train][fast]") {
  std::string said;
  const log_sink log{[&](severity, std::string_view text) { said = text; }};
  const error why = fail(errc::non_finite, "this peer's contribution", "it holds NaN or infinity");
  causeway::detail::unusable_rows rows;
  CHECK_FALSE(rows.sits_out(0));
  for (const std::uint64_t rounds : {1U, 2U, 4U, 8U, 16U, 16U, 16U, 16U}) {
    REQUIRE(rows.add(why, 10, log));
    CHECK(rows.sits_out(9 + rounds));
    CHECK_FALSE(rows.sits_out(10 + rounds));
    CHECK(said.find("round 11: this peer's contribution is left out") == 0);
  }
  CHECK(rows.add(why, 10, log).error().code == errc::non_finite);
  rows.end();
  REQUIRE(rows.add(why, 50, log));
  CHECK_FALSE(rows.sits_out(51));
}
