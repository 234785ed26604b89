// expect: causeway-P4
// SPDX-License-Identifier: Apache-2.0
#include "common.hpp"

causeway::trainer<support::quadratic, good_comm, causeway::comm::periodic<>> t{support::quadratic{}};
