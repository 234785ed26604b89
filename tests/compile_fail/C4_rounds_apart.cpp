// expect: causeway-C4
// SPDX-License-Identifier: Apache-2.0
#include <causeway/parallel/pipeline.hpp>

#include "common.hpp"

struct comm_of_its_own_pace : good_comm {
  static constexpr causeway::comm_traits traits{.rounds_by_steps = false};
};

causeway::trainer<support::quadratic, comm_of_its_own_pace, causeway::parallel::pipeline<>> mixed{support::quadratic{}};
