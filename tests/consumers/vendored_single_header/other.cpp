// SPDX-License-Identifier: Apache-2.0
#include <causeway/causeway.hpp>

std::uint64_t draw_elsewhere();

std::uint64_t draw_elsewhere() { return causeway::rng{3}.next(); }
