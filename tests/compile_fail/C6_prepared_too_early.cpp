// expect: causeway-C6
// SPDX-License-Identifier: Apache-2.0
#include <causeway/comm/every_step.hpp>
#include <causeway/parallel/local_swarm.hpp>

#include "common.hpp"

causeway::trainer<support::quadratic, causeway::comm::every_step<>, causeway::parallel::local_swarm<>> mixed{
    support::quadratic{}};
