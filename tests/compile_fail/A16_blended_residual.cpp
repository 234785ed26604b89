// expect: causeway-A16
// SPDX-License-Identifier: Apache-2.0
#include <causeway/axis/merge_rule.hpp>

#include "rounds.hpp"

causeway::comm::rounds policy{axis::implicit_residual{}, axis::delayed{}, axis::gather_mean<>{}};
