// expect: causeway-C3
// SPDX-License-Identifier: Apache-2.0
#include "common.hpp"

#include <causeway/comm/every_step.hpp>

causeway::trainer<support::quadratic, causeway::comm::every_step<>, staged_parallel> t{support::quadratic{}};

void use() {
  (void)t.start();
  (void)t.step({});
  (void)t.finish();
}
