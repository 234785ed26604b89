// expect: causeway-P7
// SPDX-License-Identifier: Apache-2.0
#include <causeway/comm/periodic.hpp>

#include "common.hpp"

auto made(causeway::result<support::quadratic> model) {
#ifdef EXPECT_ERROR
  return causeway::make_trainer(std::move(model), {}, {}, causeway::comm::periodic<>{});
#else
  return causeway::make_trainer(*std::move(model), {}, {}, causeway::comm::periodic<>{});
#endif
}
