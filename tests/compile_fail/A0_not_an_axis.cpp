// expect: causeway-A0
// SPDX-License-Identifier: Apache-2.0
#include "rounds.hpp"

causeway::comm::rounds policy{axis::every{5}, causeway::optim::sgd{}};
