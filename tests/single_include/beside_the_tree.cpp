// SPDX-License-Identifier: Apache-2.0
// First some headers of the tree, then the single header, then the tree again: guards make the second copy harmless.
#include <causeway/net/transport.hpp>
#include <causeway/tensor/parameters.hpp>

#include <causeway/causeway.hpp>

#include <causeway/core/rng.hpp>
#include <causeway/train/trainer.hpp>

#include <cstdint>

std::uint64_t draw_beside_the_tree(std::uint64_t seed);

std::uint64_t draw_beside_the_tree(std::uint64_t seed) { return causeway::rng{seed}.next(); }
