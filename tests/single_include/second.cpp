// SPDX-License-Identifier: Apache-2.0
// A bare compiler: no asio, no cereal.
#define CAUSEWAY_NO_ASIO
#define CAUSEWAY_NO_CEREAL
#include <causeway/causeway.hpp>

#include <cstdint>

std::uint64_t draw_in_second_unit(std::uint64_t seed);

std::uint64_t draw_in_second_unit(std::uint64_t seed) { return causeway::rng{seed}.next(); }
