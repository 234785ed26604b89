// expect: causeway-P8
// SPDX-License-Identifier: Apache-2.0
#include <causeway/comm/every_step.hpp>

#include "common.hpp"

#include <string>

causeway::comm::every_step<std::string> policy;
