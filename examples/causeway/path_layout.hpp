// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_EXAMPLES_PATH_LAYOUT_HPP
#define CAUSEWAY_EXAMPLES_PATH_LAYOUT_HPP

// Runs whose peers train paths through a model of modules (dipaco): how many paths there are, and who trains which.

#include <causeway/core/result.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "settings.hpp"

namespace app {

/// Whether each peer trains a path, on the documents that are sent to it.
[[nodiscard]] inline bool trains_paths(const settings& s) { return s.comm.policy == "dipaco"; }

/// Whether peers come and go: then a peer's path is the one that it is given, and stays its own.
[[nodiscard]] inline bool changes_peers(const settings& s) { return s.fault.policy == "quorum"; }

/// How many train a path each: peers, or pipelines.
[[nodiscard]] std::uint32_t path_trainers(const settings& s);
/// Of each level of blocks, how many versions there are: comm.paths, or two levels with as many paths as there are to train
/// them, the first with fewer versions; one level where the model has a single block.
[[nodiscard]] std::vector<std::uint32_t> path_versions(const settings& s);
[[nodiscard]] std::uint32_t path_count(const settings& s);
/// How many peers of a fixed set train a path; peers beyond the last path train the first ones once more.
[[nodiscard]] std::uint32_t peers_of_path(const settings& s, std::uint32_t path);

/// Blocks of a level; the last may have fewer.
[[nodiscard]] std::uint32_t blocks_of_level(const settings& s, std::size_t levels);

/// The version of its level that a path has of a block.
[[nodiscard]] std::uint32_t version_of(const settings& s, std::uint32_t path, std::int64_t block);

/// Tokens of a document that say which path it is for.
[[nodiscard]] std::int64_t route_prefix(const settings& s);

/// What such a run needs.
causeway::result<void> validate_paths(const settings& s);

}  // namespace app

#endif  // CAUSEWAY_EXAMPLES_PATH_LAYOUT_HPP
