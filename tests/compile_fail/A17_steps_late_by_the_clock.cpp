// expect: causeway-A17
// SPDX-License-Identifier: Apache-2.0
#include <causeway/axis/every_seconds.hpp>

#include "rounds.hpp"

causeway::comm::rounds policy{axis::every_seconds{}, axis::replayed{}, axis::split_mean<>{}};
