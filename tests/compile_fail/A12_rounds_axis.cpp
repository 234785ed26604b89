// expect: causeway-A12
// SPDX-License-Identifier: Apache-2.0
#include <causeway/comm/on_arrival.hpp>

#include "rounds.hpp"

causeway::comm::on_arrival policy{axis::every{5}, axis::gather_mean<>{}};
