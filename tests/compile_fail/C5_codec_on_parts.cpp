// expect: causeway-C5
// SPDX-License-Identifier: Apache-2.0
#include <causeway/comm/every_step.hpp>
#include <causeway/compress/fp16.hpp>
#include <causeway/fault/quorum.hpp>
#include <causeway/parallel/swarm.hpp>

#include "common.hpp"

causeway::trainer<support::quadratic, causeway::comm::every_step<causeway::compress::fp16>, causeway::parallel::swarm<>,
                  causeway::fault::quorum>
    mixed{support::quadratic{}};
