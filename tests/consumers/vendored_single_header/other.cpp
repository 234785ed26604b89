// SPDX-License-Identifier: Apache-2.0
#include <causeway/causeway.hpp>

float draw_elsewhere();

float draw_elsewhere() { return causeway::rng{3}.normal(); }  // not in the header where bodies are compiled apart
