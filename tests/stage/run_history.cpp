// SPDX-License-Identifier: Apache-2.0
#include <causeway/stage/run_history.hpp>

#include <cstddef>
#include <vector>

#include "support/catch.hpp"

namespace causeway {

TEST_CASE("run history: the newest intervals are kept, in order", "[stage][fast]") {
  stage::run_history h;
  CHECK(h.counts().empty());
  h.add_interval(3);
  h.add_interval(4);
  CHECK((h.counts() == std::vector<std::size_t>{3, 4}));
  for (std::size_t n = 1; n <= 100; ++n) h.add_interval(n);
  REQUIRE(h.counts().size() == stage::run_history::most);
  CHECK(h.counts().front() == 41);
  CHECK(h.counts().back() == 100);
  h.add_interval(70000);  // as many as it can say
  CHECK(h.counts().back() == 65535);
}

TEST_CASE("run history: a step is noted, and every interval who was there", "[stage][fast]") {
  stage::layout l;
  l.replicas.resize(2);
  l.replicas[0].assignments.resize(3);
  stage::run_history h;
  h.took_step(1, 0, {}, 6);  // nobody looks back
  CHECK(h == stage::run_history{});
  h.took_step(1, 2, l, 6);
  CHECK(h.replicas == 2);
  CHECK(h.stages == 3);
  CHECK(h.counts().empty());
  h.took_step(2, 2, l, 7);
  CHECK((h.counts() == std::vector<std::size_t>{7}));
}

TEST_CASE("run history: it travels as it is, so it has no padding", "[stage][fast]") {
  CHECK(sizeof(stage::run_history) == 2 * sizeof(std::uint32_t) + stage::run_history::most * sizeof(std::uint16_t));
}

}  // namespace causeway
