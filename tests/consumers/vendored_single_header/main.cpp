// SPDX-License-Identifier: Apache-2.0
#include <causeway/causeway.hpp>

float draw_elsewhere();

int main() { return causeway::rng{3}.normal() == draw_elsewhere() ? 0 : 1; }
