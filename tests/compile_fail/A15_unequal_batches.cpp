// expect: causeway-A15
// SPDX-License-Identifier: Apache-2.0
#include <causeway/axis/batch_by_speed.hpp>

#include "rounds.hpp"

causeway::comm::rounds policy{axis::batch_by_speed{}, axis::gradient{}};
