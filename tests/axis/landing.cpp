// SPDX-License-Identifier: Apache-2.0
#include <causeway/axis/landing.hpp>

#include <vector>

#include "support/catch.hpp"

using namespace causeway;

namespace {

template <class L>
float landed(const L& l, float local, float shared, float at_send) {
  thread_pool pool{1};
  const kernels::host_rows rows{pool};
  REQUIRE(l.land(rows, std::span{&local, 1}, std::span<const float>{&shared, 1}, std::span<const float>{&at_send, 1}));
  return local;
}

}  // namespace

TEST_CASE("landing: blocking and late ones take the shared parameters over", "[axis][fast]") {
  CHECK(landed(axis::blocking{}, 3, 5, 0) == 5);
  CHECK(landed(axis::one_round_late{}, 3, 5, 0) == 5);
  CHECK(landed(axis::eager{}, 3, 5, 0) == 5);
}

TEST_CASE("landing: a delayed one blends", "[axis][fast]") {
  CHECK(landed(axis::delayed{1, 0.5F}, 3, 5, 0) == 4);
  CHECK(landed(axis::delayed{1, 0.0F}, 3, 5, 0) == 5);
  CHECK(landed(axis::delayed{1, 1.0F}, 3, 5, 0) == 3);
}

TEST_CASE("landing: a compensated one replays the steps that were taken meanwhile", "[axis][fast]") {
  // λ = 0: where the shared parameters are, plus what was walked since the exchange began.
  CHECK(landed(axis::compensated{2, 0.0F}, 3.0F, 5.0F, 4.0F) == Approx(5.0F - 1.0F));
  // A quadratic with curvature c: the walk from the new place is -τ·c·place, at first order. With λ·g² = c the correction
  // is exact: g = c·at_send, so λ = 1/(c·at_send²).
  constexpr float c = 0.01F, from = 4.0F, to = 5.0F, tau = 2.0F;
  const float walked = from - tau * c * from;
  CHECK(landed(axis::compensated{2, 1.0F / (c * from * from)}, walked, to, from) ==
        Approx(to - tau * c * to).epsilon(1e-5));
}
