// expect: causeway-A12
// SPDX-License-Identifier: Apache-2.0
#include <causeway/comm/async_parameter_server.hpp>

#include "rounds.hpp"

causeway::comm::async_parameter_server policy{axis::every{5}, axis::gather_mean<>{}};
