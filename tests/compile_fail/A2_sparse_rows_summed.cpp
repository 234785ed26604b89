// expect: causeway-A2
// SPDX-License-Identifier: Apache-2.0
#include "rounds.hpp"

causeway::comm::rounds policy{axis::every{5}, sums_sparse_rows{}};
