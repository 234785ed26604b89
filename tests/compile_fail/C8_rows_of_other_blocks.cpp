// expect: causeway-C8
// SPDX-License-Identifier: Apache-2.0
#include <causeway/comm/rounds.hpp>
#include <causeway/fault/quorum.hpp>
#include <causeway/parallel/async_pipeline.hpp>
#include <causeway/stage/recovery_redundant_forward.hpp>
#include <causeway/train/pipeline_executors.hpp>

#include "common.hpp"

causeway::trainer<support::quadratic, causeway::comm::rounds<>, causeway::parallel::async_pipeline<>,
                  causeway::fault::quorum<causeway::stage::recovery::redundant_forward>>
    mixed{support::quadratic{}};
