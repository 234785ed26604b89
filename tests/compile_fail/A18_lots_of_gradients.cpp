// expect: causeway-A18
// SPDX-License-Identifier: Apache-2.0
#include <causeway/axis/participation.hpp>

#include "rounds.hpp"

causeway::comm::rounds policy{axis::sampled_peers{}, axis::gradient{}, axis::split_mean<>{}};
