// expect: causeway-P8
// SPDX-License-Identifier: Apache-2.0
#include <causeway/comm/periodic.hpp>

#include "common.hpp"

#include <string>

causeway::comm::periodic<causeway::optim::nesterov, std::string> policy;
