// SPDX-License-Identifier: Apache-2.0
#include <causeway/membership/proposal.hpp>

#include "support/catch.hpp"

#include <chrono>
#include <cstdint>

using namespace causeway;
using namespace causeway::membership;
using namespace std::chrono_literals;

namespace {

constexpr time_point at(duration d) { return time_point{d}; }

/// Twelve samples, six for each of two peers; `done` of the first peer's are committed.
ledger with_done(std::uint64_t done) {
  ledger l{8, 12};
  commit_record r;
  r.members = {1, 2};
  l.apply(r);
  r.contributions = {{1, done}};
  r.members = {1};
  l.apply(r);
  return l;
}

}  // namespace

TEST_CASE("takeover: it is due when waiting has cost as much as training the missing samples will", "[membership][fast]") {
  membership::detail::wait_times waits{options{}};
  waits.begin_round(at(0s));
  waits.enough_ready(at(60s), 6);  // ten seconds a sample
  const ledger l = with_done(6);
  REQUIRE(membership::detail::handed_out(l));
  membership::detail::takeover t;
  t.begin_round(l, {1});
  CHECK(t.due(l, 1, waits, at(60s)) == at(120s));  // six samples are missing
  CHECK(t.due(l, 3, waits, at(70s)) == at(80s));   // two for each of three; idle since the first question
  t.begin_round(l, {1, 2});                        // a member has something to train again
  CHECK(t.due(l, 3, waits, at(70s)) == at(90s));
}

TEST_CASE("takeover: a complete run has nothing to take over, one without quotas hands nothing out", "[membership][fast]") {
  const membership::detail::wait_times waits{options{}};
  membership::detail::takeover t;
  CHECK(t.due(ledger{0, 0}, 1, waits, at(1s)) == at(1s));
  CHECK_FALSE(membership::detail::handed_out(ledger{}));
  CHECK_FALSE(membership::detail::handed_out(ledger{8}));
  CHECK_FALSE(membership::detail::handed_out(ledger{8, 12}));
  ledger all{6, 6};
  commit_record r;
  r.members = {1};
  all.apply(r);
  r.contributions = {{1, 6}};
  all.apply(r);
  REQUIRE(all.complete());
  CHECK(t.due(all, 1, waits, at(1s)) == no_deadline);
}

TEST_CASE("takeover: the median of what is brought", "[membership][fast]") {
  CHECK(membership::detail::median({}) == 0);
  CHECK(membership::detail::median({7}) == 7);
  CHECK(membership::detail::median({160, 0, 8, 8, 160}) == 8);
}
