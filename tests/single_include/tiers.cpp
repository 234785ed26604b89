// SPDX-License-Identifier: Apache-2.0
// Several tiers in one unit, vendored each as one file: what they have in common is there once.
#include <causeway/train.hpp>

#include <causeway/plan.hpp>
#include <causeway/sim.hpp>

#include <cstdint>

#ifdef CAUSEWAY_PRESETS_GOSSIP_HPP
#error "train.hpp, sim.hpp and plan.hpp have no presets"
#endif

std::uint64_t draw_with_tiers(std::uint64_t seed);

std::uint64_t draw_with_tiers(std::uint64_t seed) { return causeway::rng{seed}.next(); }
