// expect: local_step
// SPDX-License-Identifier: Apache-2.0
#include <causeway/comm/periodic.hpp>

#include "common.hpp"

#ifdef EXPECT_ERROR
constexpr causeway::comm::periodic_options options{.local_step = 20};
#else
constexpr causeway::comm::periodic_options options{.local_steps = 20};
#endif
