// expect: causeway-A14
// SPDX-License-Identifier: Apache-2.0
#include <causeway/axis/global_samples.hpp>

#include "rounds.hpp"

causeway::comm::rounds policy{axis::global_samples{64}, axis::gradient{}};
