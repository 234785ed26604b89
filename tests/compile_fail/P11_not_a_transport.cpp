// expect: causeway-P11
// SPDX-License-Identifier: Apache-2.0
#include <causeway/comm/periodic.hpp>

#include "common.hpp"

auto made(support::quadratic model, causeway::result<causeway::net::any_transport> transport) {
#ifdef EXPECT_ERROR
  return causeway::make_trainer(std::move(model), {.transport = std::move(transport)}, {});
#else
  return causeway::make_trainer(std::move(model), {.transport = *std::move(transport)}, {});
#endif
}
