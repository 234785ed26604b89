// SPDX-License-Identifier: Apache-2.0
#include <causeway/optim/clip.hpp>

#include "support/catch.hpp"
#include "support/optimizer_cases.hpp"

#include <limits>

using namespace causeway;
using namespace causeway::optim;

TEST_CASE("clip: the global norm is the Euclidean one, the same bits for any number of threads", "[optim][fast]") {
  std::vector<float> g(70001);
  double squares = 0.0;
  for (std::size_t i = 0; i < g.size(); ++i) {
    g[i] = test::draw(static_cast<std::int64_t>(i));
    squares += static_cast<double>(g[i]) * static_cast<double>(g[i]);
  }
  thread_pool one, three{3};
  CHECK(global_norm(one, g) == Approx(std::sqrt(squares)).epsilon(1e-7));
  CHECK(global_norm(three, g) == global_norm(one, g));
  CHECK(global_norm(one, std::vector<float>{3e30F, -4e30F}) == 5e30F);  // squares beyond f32
  CHECK(global_norm(one, {}) == 0.0F);
}

TEST_CASE("clip: the factor never enlarges a gradient", "[optim][fast]") {
  CHECK(clip_scale(0.5F, 1.0F) == 1.0F);
  CHECK(clip_scale(1.0F, 1.0F) == 1.0F);
  CHECK(clip_scale(4.0F, 1.0F) == 0.25F);
  CHECK(clip_scale(4.0F, 0.0F) == 1.0F);  // off
  CHECK(clip_scale(0.0F, 1.0F) == 1.0F);
}

TEST_CASE("clip: a norm that is not finite is an error with a remedy", "[optim][fast]") {
  thread_pool pool;
  std::vector<float> g(100, 1.0F);
  CHECK(check_norm(global_norm(pool, g), "step 7").has_value());
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity()}) {
    g[63] = bad;
    const auto checked = check_norm(global_norm(pool, g), "step 7");
    REQUIRE_FALSE(checked.has_value());
    CHECK(checked.error().code == errc::non_finite);
    CHECK(checked.error().where == "step 7");
    CHECK(checked.error().message.find("learning rate") != std::string::npos);
  }
}
