// expect: causeway-C2
// SPDX-License-Identifier: Apache-2.0
#include "common.hpp"

causeway::trainer<support::quadratic, causeway::comm::periodic<>, staged_parallel, elastic_fault> t{support::quadratic{}};
