// expect: causeway-P9
// SPDX-License-Identifier: Apache-2.0
#include <causeway/comm/periodic.hpp>

#include "common.hpp"

struct descent {
  float rate = 1;
};

causeway::comm::periodic<descent> policy;
