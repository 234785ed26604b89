// expect: causeway-A9
// SPDX-License-Identifier: Apache-2.0
#include "rounds.hpp"

causeway::comm::rounds policy{axis::every{5}, axis::parameters{}, sparse_without_counts{}};
