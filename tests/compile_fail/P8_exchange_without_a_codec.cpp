// expect: causeway-P8
// SPDX-License-Identifier: Apache-2.0
#include <causeway/comm/rounds.hpp>

#include <causeway/compress/top_k.hpp>

#include "common.hpp"

#ifdef EXPECT_ERROR
using codec = causeway::compress::top_k;  // which entries; not how they are written
#else
using codec = causeway::compress::none;
#endif

causeway::comm::rounds<causeway::axis::every, causeway::axis::gather_mean<codec>> policy;
