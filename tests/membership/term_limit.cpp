// SPDX-License-Identifier: Apache-2.0
#include <causeway/membership/peer_table.hpp>

#include "support/catch.hpp"

using namespace causeway;
using causeway::membership::detail::term_limit;

namespace {
time_point at(std::int64_t s) { return {std::chrono::seconds{s}}; }
}  // namespace

TEST_CASE("term limit: elections one after the other pass at once", "[membership][fast]") {
  term_limit limit{std::chrono::seconds{1}};
  for (std::uint32_t t = 1; t <= 60; ++t) CHECK(limit.allow(t - 1, t, at(5)));
  for (std::uint32_t t = 61; t <= 5000; ++t) CHECK(limit.allow(t - 1, t, at(t)));
}

TEST_CASE("term limit: growth without time is bounded, in small steps as in large ones", "[membership][fast]") {
  term_limit limit{std::chrono::seconds{1}};
  CHECK_FALSE(limit.allow(5, 4'000'000, at(1)));
  std::uint32_t term = 5;
  while (term < 1000 && limit.allow(term, term + 1, at(1))) ++term;
  CHECK(term <= 5 + term_limit::burst);
}

TEST_CASE("term limit: a jump that is claimed on and on passes after as many heartbeats", "[membership][fast]") {
  term_limit limit{std::chrono::seconds{1}};
  std::int64_t s = 100;
  while (s < 2000 && !limit.allow(5, 505, at(s))) ++s;
  CHECK(s >= 100 + 500 - static_cast<std::int64_t>(term_limit::burst) - 1);
  CHECK(s <= 600);
  CHECK_FALSE(limit.allow(505, 1005, at(s)));  // and the next one takes as long again
}

TEST_CASE("term limit: a candidate that asks as seldom as candidates do is let through in the end", "[membership][fast]") {
  term_limit limit{std::chrono::seconds{1}};
  std::int64_t s = 100;
  for (std::uint32_t t = 505; s < 2000 && !limit.allow(5, t, at(s)); ++t) s += 9;
  CHECK(s <= 700);
}

TEST_CASE("term limit: a claim from long ago does not count as waiting", "[membership][fast]") {
  term_limit limit{std::chrono::seconds{1}};
  CHECK_FALSE(limit.allow(5, 5000, at(1)));
  CHECK_FALSE(limit.allow(5, 5000, at(100'000)));
}
