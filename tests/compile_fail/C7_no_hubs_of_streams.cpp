// expect: causeway-C7
// SPDX-License-Identifier: Apache-2.0
#include <causeway/comm/async_parameter_server.hpp>
#include <causeway/fault/quorum.hpp>
#include <causeway/parallel/local_async_pipeline.hpp>

#include "common.hpp"

causeway::trainer<support::quadratic, causeway::comm::async_parameter_server<>, causeway::parallel::local_async_pipeline<>,
                  causeway::fault::quorum>
    mixed{support::quadratic{}};
