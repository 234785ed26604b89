// expect: causeway-P0
// SPDX-License-Identifier: Apache-2.0
#include "common.hpp"

struct nothing_in_particular {};

causeway::trainer<support::quadratic, nothing_in_particular> t{support::quadratic{}};
