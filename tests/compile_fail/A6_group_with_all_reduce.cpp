// expect: causeway-A6
// SPDX-License-Identifier: Apache-2.0
#include "rounds.hpp"

causeway::comm::rounds policy{axis::every{5}, axis::random_groups{2}, axis::parameters{}};
