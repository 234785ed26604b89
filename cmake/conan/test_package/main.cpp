// SPDX-License-Identifier: Apache-2.0
#include <causeway/config/version.hpp>
#include <causeway/core/rng.hpp>

#include <cstring>

int main() {
  const bool same = causeway::rng{1}.next() == causeway::rng{1}.next();
  return same && std::strcmp(EXPECTED_VERSION, CAUSEWAY_VERSION_STRING) == 0 ? 0 : 1;
}
