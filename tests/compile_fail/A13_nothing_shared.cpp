// expect: causeway-A13
// SPDX-License-Identifier: Apache-2.0
#include <causeway/comm/async_parameter_server.hpp>

#include "rounds.hpp"

causeway::comm::async_parameter_server policy{axis::every{5}, axis::one_round_late{}};
