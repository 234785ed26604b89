// expect: causeway-C3
// SPDX-License-Identifier: Apache-2.0
#include "common.hpp"

#include <causeway/presets/compressed.hpp>

causeway::trainer<support::quadratic, causeway::presets::dedloc, staged_parallel> t{support::quadratic{}};

void use() {
  (void)t.start();
  (void)t.step({});
  (void)t.finish();
}
