// SPDX-License-Identifier: Apache-2.0
#include <causeway/comm/arrival_rules.hpp>

#include <causeway/comm/on_arrival.hpp>
#include <causeway/optim/sgd.hpp>
#include <causeway/train/trainer.hpp>

#include "support/blocky.hpp"
#include "support/catch.hpp"

using namespace causeway;

TEST_CASE("arrival rules: options that cannot work are refused at the start", "[comm][fast]") {
  const auto starts = [](auto policy) {
    auto t = make_trainer(support::blocky{}, environment{}, {}, std::move(policy), optim::sgd{});
    return t.start().has_value();
  };
  CHECK(starts(comm::on_arrival{axis::every{4}}));
  CHECK_FALSE(starts(comm::on_arrival{axis::every{0}}));
  CHECK_FALSE(starts(comm::on_arrival{axis::star{1}}));
  CHECK_FALSE(starts(comm::on_arrival{axis::quorum{.least = 2}}));
  CHECK_FALSE(starts(comm::on_arrival{axis::delayed{0, 0.5F}}));
  CHECK_FALSE(starts(comm::on_arrival{axis::balanced{1000}}));
}
