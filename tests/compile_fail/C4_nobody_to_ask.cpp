// expect: causeway-C4
// SPDX-License-Identifier: Apache-2.0
#include <causeway/presets/local_updates.hpp>

#include "common.hpp"

struct stages_that_do_not_ask : staged_parallel {
  static constexpr causeway::parallel_traits traits{.staged = true};
};

causeway::trainer<support::quadratic, causeway::presets::co_learning, stages_that_do_not_ask> mixed{support::quadratic{}};
