// expect: causeway-P10
// SPDX-License-Identifier: Apache-2.0
#include <causeway/comm/periodic.hpp>

#include "common.hpp"

auto made(support::quadratic model) {
  causeway::comm::periodic<> policy{{.local_steps = 20}};
#ifdef EXPECT_ERROR
  return causeway::make_trainer(std::move(model), {}, {}, policy);
#else
  return causeway::make_trainer(std::move(model), {}, {}, std::move(policy));
#endif
}
