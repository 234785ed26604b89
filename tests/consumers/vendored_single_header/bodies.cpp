// SPDX-License-Identifier: Apache-2.0
// Where CAUSEWAY_COMPILED is defined for all files of a project, this one has what the others only declare.
#define CAUSEWAY_IMPLEMENTATION
#include <causeway/causeway.hpp>
