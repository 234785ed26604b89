// expect: causeway-C1
// SPDX-License-Identifier: Apache-2.0
#include "common.hpp"

causeway::trainer<support::quadratic, good_comm, elastic_fault> t{support::quadratic{}};

void use() {
  (void)t.start();
  (void)t.step({});
  (void)t.finish();
}
