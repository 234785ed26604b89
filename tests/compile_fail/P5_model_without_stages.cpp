// expect: causeway-P5
// SPDX-License-Identifier: Apache-2.0
#include <causeway/parallel/pipeline.hpp>

#include "common.hpp"

causeway::trainer<support::quadratic, causeway::parallel::pipeline<>> pipelined{support::quadratic{}};

void use() { (void)pipelined.start(); }
