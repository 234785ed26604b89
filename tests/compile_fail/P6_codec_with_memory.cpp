// expect: causeway-P6
// SPDX-License-Identifier: Apache-2.0
#include <causeway/parallel/swarm.hpp>
#include <causeway/stage/delta.hpp>

#include "common.hpp"

causeway::parallel::swarm<causeway::stage::delta<4, 8>> remembering;
