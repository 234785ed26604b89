// expect: causeway-A11
// SPDX-License-Identifier: Apache-2.0
#include "rounds.hpp"

causeway::comm::rounds policy{axis::growing{}, axis::parameters{}};
