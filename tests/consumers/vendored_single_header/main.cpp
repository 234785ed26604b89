// SPDX-License-Identifier: Apache-2.0
#include <causeway/causeway.hpp>

std::uint64_t draw_elsewhere();

int main() { return causeway::rng{3}.next() == draw_elsewhere() ? 0 : 1; }
