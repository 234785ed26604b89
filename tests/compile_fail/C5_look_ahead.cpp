// expect: causeway-C5
// SPDX-License-Identifier: Apache-2.0
#include <causeway/fault/quorum.hpp>
#include <causeway/parallel/swarm.hpp>
#include <causeway/presets/compressed.hpp>

#include "common.hpp"

causeway::trainer<support::quadratic, causeway::presets::distro, causeway::parallel::swarm<>, causeway::fault::quorum>
    mixed{support::quadratic{}};
