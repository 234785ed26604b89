// SPDX-License-Identifier: Apache-2.0
#include <causeway/parallel/elastic/unsound_steps.hpp>

#include <limits>
#include <string>
#include <string_view>

#include "support/catch.hpp"

using namespace causeway;

TEST_CASE("unsound steps: a loss or gradient that is not finite is found", "[parallel][fast]") {
  constexpr float infinite = std::numeric_limits<float>::infinity();
  CHECK(parallel::check_sound(1, 2));
  CHECK(parallel::check_sound(std::numeric_limits<double>::quiet_NaN(), 2).error().code == errc::non_finite);
  CHECK(parallel::check_sound(1, infinite).error().code == errc::non_finite);
}

TEST_CASE("unsound steps: a peer takes the blame, and ends where its parameters are sound and it happens ever again",
          "[parallel][fast]") {
  parallel::unsound_steps u;
  std::string text;
  const log_sink log{[&](severity, std::string_view line) { text = line; }};
  const error why = fail(errc::non_finite, "this stage", "it came to nothing");
  for (int i = 0; i < 10; ++i) CHECK(u.judge(4, why, 2, log).code == errc::corrupt);  // it fetches blocks every time
  CHECK(text.find("step 5: this stage: it came to nothing") == 0);
  CHECK(text.find("2 of its blocks") != std::string::npos);
  for (int i = 0; i < 3; ++i) CHECK(u.judge(4, why, 0, log).code == errc::corrupt);
  CHECK(u.judge(5, why, 0, log).code == errc::corrupt);  // another step
  CHECK(text.find("blocks") == std::string::npos);
  for (int i = 0; i < 2; ++i) CHECK(u.judge(5, why, 0, log).code == errc::corrupt);
  const error last = u.judge(5, why, 0, log);
  CHECK(last.code == errc::diverged);
  CHECK(last.text().find("4 times from sound parameters: lower the learning rate") != std::string::npos);
}
