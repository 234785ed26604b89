// expect: causeway-C5
// SPDX-License-Identifier: Apache-2.0
#include <causeway/parallel/swarm.hpp>

#include "common.hpp"

causeway::trainer<support::quadratic, causeway::comm::periodic<>, causeway::parallel::swarm<>> mixed{support::quadratic{}};
