// expect: causeway-C8
// SPDX-License-Identifier: Apache-2.0
#include <causeway/comm/every_step.hpp>
#include <causeway/compress/block_int8.hpp>
#include <causeway/fault/quorum.hpp>
#include <causeway/parallel/pipeline.hpp>
#include <causeway/stage/recovery_reroute.hpp>
#include <causeway/train/pipeline_executors.hpp>

#include "common.hpp"

using lossy = causeway::comm::every_step<causeway::compress::block_int8>;
causeway::trainer<support::quadratic, lossy, causeway::parallel::pipeline<>,
                  causeway::fault::quorum<causeway::stage::recovery::reroute>>
    mixed{support::quadratic{}};
