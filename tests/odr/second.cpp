// SPDX-License-Identifier: Apache-2.0
#include <causeway/causeway.hpp>

#include <cstdint>

std::uint64_t draw_in_second_unit(std::uint64_t seed);
const void* address_in_second_unit();

std::uint64_t draw_in_second_unit(std::uint64_t seed) { return causeway::rng{seed}.next(); }
const void* address_in_second_unit() { return static_cast<const void*>(&causeway::dtype_of<float>); }
