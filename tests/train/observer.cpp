// SPDX-License-Identifier: Apache-2.0
#include <causeway/train/observer.hpp>

#include <causeway/train/trainer.hpp>

#include "support/catch.hpp"
#include "support/quadratic.hpp"

using namespace causeway;

TEST_CASE("observer: is told of every committed step and of no other", "[train][fast]") {
  std::vector<step_report> seen;
  auto t = make_trainer(support::test_model{support::quadratic{}}, environment{}, {},
                        parallel::data_parallel{{.micro_batches = 2}});
  t.observe([&](const step_report& r) { seen.push_back(r); });
  REQUIRE(t.start());
  const auto tokens = support::tokens_of(0, 0, 6);
  REQUIRE(t.step({tokens, tokens, 2}));
  REQUIRE(!t.step({tokens, tokens, 3}));  // three sequences do not fall into two micro-batches
  REQUIRE(t.step({tokens, tokens, 2}));
  REQUIRE(seen.size() == 2);
  CHECK(seen[0].step == 1);
  CHECK(seen[1].step == 2);
  CHECK(seen[1].loss < seen[0].loss);
}
