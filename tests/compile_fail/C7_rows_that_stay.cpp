// expect: causeway-C7
// SPDX-License-Identifier: Apache-2.0
#include <causeway/comm/periodic.hpp>
#include <causeway/fault/quorum.hpp>
#include <causeway/parallel/local_pipeline.hpp>

#include "common.hpp"

causeway::trainer<support::quadratic, causeway::comm::periodic<>, causeway::parallel::local_pipeline<>,
                  causeway::fault::quorum<>>
    mixed{support::quadratic{}};
