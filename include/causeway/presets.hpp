// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PRESETS_HPP
#define CAUSEWAY_PRESETS_HPP

// Published systems as compositions of policies.
//
// Written by tools/check_tree.py --fix-umbrella. What needs a third-party library comes last and only where that library is
// at hand; only headers like this one may include others of ours inside #if.

#include <causeway/presets/asynchronous.hpp>
#include <causeway/presets/compressed.hpp>
#include <causeway/presets/elastic_pipelines.hpp>
#include <causeway/presets/experts.hpp>
#include <causeway/presets/gossip.hpp>
#include <causeway/presets/local_updates.hpp>
#include <causeway/presets/modular.hpp>
#include <causeway/presets/optimizers.hpp>
#include <causeway/presets/overlapped.hpp>
#include <causeway/presets/pipelines.hpp>
#include <causeway/presets/served_models.hpp>
#include <causeway/presets/subspaces.hpp>
#include <causeway/presets/swarms.hpp>

#endif  // CAUSEWAY_PRESETS_HPP
