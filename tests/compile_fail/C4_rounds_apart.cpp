// expect: causeway-C4
// SPDX-License-Identifier: Apache-2.0
#include <causeway/axis/by_speed.hpp>
#include <causeway/comm/rounds.hpp>
#include <causeway/parallel/pipeline.hpp>

#include "common.hpp"

causeway::trainer<support::quadratic, causeway::comm::rounds<causeway::axis::by_speed>, causeway::parallel::pipeline<>>
    mixed{support::quadratic{}};
