// expect: causeway-P8
// SPDX-License-Identifier: Apache-2.0
#include <causeway/comm/async_parameter_server.hpp>

#include <causeway/compress/top_k.hpp>

#include "common.hpp"

#ifdef EXPECT_ERROR
using codec = causeway::compress::top_k;  // which entries; not how they are written
#else
using codec = causeway::compress::none;
#endif

causeway::comm::async_parameter_server<causeway::axis::every, causeway::axis::push<codec>> policy;
