// expect: causeway-C8
// SPDX-License-Identifier: Apache-2.0
#include <causeway/fault/quorum.hpp>
#include <causeway/parallel/pipeline.hpp>
#include <causeway/presets/compressed.hpp>
#include <causeway/stage/recovery_redundant_forward.hpp>
#include <causeway/train/pipeline_executors.hpp>

#include "common.hpp"

causeway::trainer<support::quadratic, causeway::presets::distro, causeway::parallel::pipeline<>,
                  causeway::fault::quorum<causeway::stage::recovery::redundant_forward>>
    mixed{support::quadratic{}};
