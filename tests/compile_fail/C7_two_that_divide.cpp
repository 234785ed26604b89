// expect: causeway-C7
// SPDX-License-Identifier: Apache-2.0
#include <causeway/axis/batch_by_speed.hpp>
#include <causeway/comm/rounds.hpp>
#include <causeway/comm/stacked.hpp>
#include <causeway/fault/quorum.hpp>
#include <causeway/parallel/local_pipeline.hpp>

#include "common.hpp"

using namespace causeway;
using changes = comm::rounds<axis::batch_by_speed, axis::split_mean<>>;
using means = comm::rounds<axis::batch_by_speed, axis::parameters, axis::split_mean<>>;

trainer<support::quadratic, comm::stacked<means, changes>, parallel::local_pipeline<>, fault::quorum<>> mixed{
    support::quadratic{}};
