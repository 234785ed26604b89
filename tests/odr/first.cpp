// SPDX-License-Identifier: Apache-2.0
#include <causeway/causeway.hpp>

#include <cstdint>
#include <cstdio>

std::uint64_t draw_in_second_unit(std::uint64_t seed);
const void* address_in_second_unit();

// Inline functions and constants must be one entity for both units.
const void* address_in_first_unit() { return static_cast<const void*>(&causeway::dtype_of<float>); }

int main() {
  if (causeway::rng{7}.next() != draw_in_second_unit(7)) {
    std::puts("the two units draw different numbers");
    return 1;
  }
  if (address_in_first_unit() != address_in_second_unit()) {
    std::puts("an inline constant exists twice");
    return 1;
  }
  return 0;
}
