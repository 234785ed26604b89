// SPDX-License-Identifier: Apache-2.0
#include <causeway/optim/schedule.hpp>

#include "support/catch.hpp"

using namespace causeway::optim;

namespace {

struct returns_double {
  double at(std::uint64_t) const { return 1.0; }
};
static_assert(!Schedule<returns_double>);
static_assert(constant{0.5F}.at(7) == 0.5F);

}  // namespace

TEST_CASE("schedule: warms up linearly, peaks, falls along half a cosine and stays", "[optim][fast]") {
  const warmup_cosine s{.peak = 2.0F, .warmup_steps = 10, .total_steps = 110, .final_fraction = 0.1F};
  CHECK(s.at(0) == Approx(0.2F));
  CHECK(s.at(4) == Approx(1.0F));
  CHECK(s.at(9) == 2.0F);
  CHECK(s.at(10) == 2.0F);
  CHECK(s.at(60) == Approx(1.1F));  // halfway between peak and floor
  CHECK(s.at(35) == Approx(0.2F + 1.8F * (0.5F + 0.25F * std::sqrt(2.0F))));
  CHECK(s.at(110) == Approx(0.2F));
  CHECK(s.at(1000000) == s.at(110));
  for (std::uint64_t step = 10; step < 110; ++step) CHECK(s.at(step + 1) < s.at(step));
}

TEST_CASE("schedule: no warm-up and nothing after it are fine", "[optim][fast]") {
  CHECK(warmup_cosine{.peak = 1.0F, .warmup_steps = 0, .total_steps = 10}.at(0) == 1.0F);
  const warmup_cosine all_warmup{.peak = 1.0F, .warmup_steps = 10, .total_steps = 10, .final_fraction = 0.5F};
  CHECK(all_warmup.at(9) == 1.0F);
  CHECK(all_warmup.at(10) == 0.5F);
  const warmup_cosine too_short{.peak = 1.0F, .warmup_steps = 10, .total_steps = 5, .final_fraction = 0.5F};
  CHECK(too_short.at(20) == 0.5F);
}
