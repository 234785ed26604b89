// expect: causeway-A8
// SPDX-License-Identifier: Apache-2.0
#include "rounds.hpp"

causeway::comm::rounds policy{axis::every{5}, axis::error_feedback{}, without_residual{}};
