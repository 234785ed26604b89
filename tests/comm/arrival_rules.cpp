// SPDX-License-Identifier: Apache-2.0
#include <causeway/comm/arrival_rules.hpp>

#include <causeway/comm/async_parameter_server.hpp>
#include <causeway/optim/sgd.hpp>
#include <causeway/train/trainer.hpp>

#include "support/blocky.hpp"
#include "support/catch.hpp"

using namespace causeway;

TEST_CASE("arrival rules: options that cannot work are refused at the start", "[comm][fast]") {
  const auto starts = [](auto policy) {
    auto t = make_trainer(support::test_model{support::blocky{}}, environment{}, {}, std::move(policy), optim::sgd{});
    return t.start().has_value();
  };
  CHECK(starts(comm::async_parameter_server{axis::every{4}}));
  CHECK_FALSE(starts(comm::async_parameter_server{axis::every{0}}));
  CHECK_FALSE(starts(comm::async_parameter_server{axis::star{1}}));
  CHECK_FALSE(starts(comm::async_parameter_server{axis::quorum{.least = 2}}));
  CHECK_FALSE(starts(comm::async_parameter_server{axis::delayed{0, 0.5F}}));
  CHECK_FALSE(starts(comm::async_parameter_server{axis::balanced{1000}}));
}
