// SPDX-License-Identifier: Apache-2.0
#include <causeway/axis/merge_rule.hpp>

#include <cmath>
#include <vector>

#include "support/catch.hpp"

using namespace causeway;

namespace {

template <class L>
float applied(const L& l, float local, float shared, float at_send) {
  thread_pool pool{1};
  const kernels::host_rows rows{pool};
  const compress::matrix_range tensor{0, 1, 1};
  REQUIRE(l.apply(rows, std::span{&tensor, 1}, std::span{&local, 1}, std::span<const float>{&shared, 1},
                  std::span<const float>{&at_send, 1}));
  return local;
}

}  // namespace

TEST_CASE("merge rule: blocking and late ones take the shared parameters over", "[axis][fast]") {
  CHECK(applied(axis::blocking{}, 3, 5, 0) == 5);
  CHECK(applied(axis::one_round_late{}, 3, 5, 0) == 5);
  CHECK(applied(axis::eager{}, 3, 5, 0) == 5);
}

TEST_CASE("merge rule: a delayed one blends", "[axis][fast]") {
  CHECK(applied(axis::delayed{1, 0.5F}, 3, 5, 0) == 4);
  CHECK(applied(axis::delayed{1, 0.0F}, 3, 5, 0) == 5);
  CHECK(applied(axis::delayed{1, 1.0F}, 3, 5, 0) == 3);
}

TEST_CASE("merge rule: a compensated one replays the steps that were taken meanwhile", "[axis][fast]") {
  // λ0 = 0: where the shared parameters are, plus what was walked since the exchange began.
  CHECK(applied(axis::compensated{2, 0.0F}, 3.0F, 5.0F, 4.0F) == Approx(5.0F - 1.0F));
  // One value: the correction is λ0 times as long as what was walked, and points where the shared parameters are.
  CHECK(applied(axis::compensated{2, 0.25F}, 3.0F, 5.0F, 4.0F) == Approx(5.0F - 1.25F));
  CHECK(applied(axis::compensated{2, 0.25F}, 3.0F, 3.5F, 4.0F) == Approx(3.5F - 0.75F));
  CHECK(applied(axis::compensated{2, 0.25F}, 3e-6F, 5e-6F, 4e-6F) == Approx(3.75e-6F));
  // Nothing walked, or nowhere to go: nothing to correct.
  CHECK(applied(axis::compensated{2, 1.0F}, 4.0F, 5.0F, 4.0F) == 5.0F);
  CHECK(applied(axis::compensated{2, 1.0F}, 3.0F, 4.0F, 4.0F) == 3.0F);
}

TEST_CASE("merge rule: each tensor has a correction of its own", "[axis][fast]") {
  // g = (3, 4), g² D = (9, 16), as long as 5 / 18.36 of it; the second tensor moves a millionth as far.
  thread_pool pool{1};
  const kernels::host_rows rows{pool};
  std::vector<float> local{0, 0, 0, 0, 7};
  const std::vector<float> at_send{3, 4, 3e-6F, 4e-6F, 8}, shared{4, 5, 4e-6F, 5e-6F, 8};
  const std::vector<compress::matrix_range> tensors{{0, 1, 2}, {2, 2, 1}, {4, 1, 1}};
  REQUIRE(axis::compensated{1, 0.5F}.apply(rows, tensors, local, shared, at_send));
  const double scale = 0.5 * 5 / std::sqrt(81.0 + 256.0);
  const std::vector<double> expected{4 - 3 - scale * 9, 5 - 4 - scale * 16, 1e-6 * (4 - 3 - scale * 9),
                                     1e-6 * (5 - 4 - scale * 16), 7};
  for (std::size_t i = 0; i < local.size(); ++i) CHECK(double{local[i]} == Approx(expected[i]).epsilon(1e-5).margin(1e-9));
}
