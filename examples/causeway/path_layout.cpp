// SPDX-License-Identifier: Apache-2.0
#include "path_layout.hpp"

#include <causeway/axis/module_groups.hpp>

#include <algorithm>
#include <functional>
#include <numeric>
#include <string>

#include "swarm_place.hpp"

namespace app {

using causeway::errc;
using causeway::fail;

std::uint32_t path_trainers(const settings& s) {
  if (is_swarm(s)) return s.net.peers / stages_of(s);
  return is_pipeline(s) ? pipelines_of(s) : s.net.peers;
}

std::vector<std::uint32_t> path_versions(const settings& s) {
  if (!s.comm.paths.empty()) return s.comm.paths;
  const std::uint32_t all = path_trainers(s);
  if (s.model.layers == 1) return {all};
  std::uint32_t first = 1;
  for (std::uint32_t d = 1; d <= all / d; ++d) {
    if (all % d == 0) first = d;
  }
  return {first, all / first};
}

std::uint32_t path_count(const settings& s) {
  const auto versions = path_versions(s);
  return std::accumulate(versions.begin(), versions.end(), 1U, std::multiplies<>{});
}

std::uint32_t peers_of_path(const settings& s, std::uint32_t path) {
  return (s.net.peers - path + path_count(s) - 1) / path_count(s);
}

std::uint32_t blocks_of_level(const settings& s, std::size_t levels) {
  const auto blocks = static_cast<std::size_t>(s.model.layers);
  return static_cast<std::uint32_t>((blocks + levels - 1) / levels);
}

std::uint32_t version_of(const settings& s, std::uint32_t path, std::int64_t block) {
  const auto versions = path_versions(s);
  const auto level = static_cast<std::size_t>(block / blocks_of_level(s, versions.size()));
  return causeway::axis::every_path(versions, path + 1)[path].at(level + 1);
}

std::int64_t route_prefix(const settings& s) {
  return std::min(s.comm.route_prefix, std::max<std::int64_t>(1, s.model.context / 2));
}

causeway::result<void> validate_paths(const settings& s) {
  const auto bad = [](const char* name, const std::string& why) { return fail(errc::invalid_argument, name, why); };
  if (s.parallel.policy != "data" && !is_elastic_pipeline(s) && !is_swarm(s)) {
    return bad("parallel.policy", "each peer, or each pipeline of those that come and go, trains a path of " +
                                      s.comm.policy + "; use data, or pipeline or swarm with --fault.policy quorum");
  }
  const auto versions = path_versions(s);
  std::uint64_t paths = 1;
  const std::uint32_t most = path_trainers(s);
  for (const std::uint32_t v : versions) paths *= v <= most ? v : most + 1;
  if (paths == 0 || paths > most) {
    return is_pipeline(s) ? bad("comm.paths", "are at least one, and each needs a pipeline; use 1 up to " +
                                                  std::to_string(most) + ", or leave it out")
           : is_swarm(s)  ? bad("comm.paths", "are at least one, and each needs a peer of every stage; use 1 up to " +
                                                  std::to_string(most) + ", or leave it out")
                          : bad("comm.paths", "are at least one, and each needs a peer; use 1 up to net.peers (" +
                                                  std::to_string(most) + "), or leave it out");
  }
  if ((is_pipeline(s) || is_swarm(s)) && s.train.micro_batches % static_cast<std::int64_t>(paths) != 0) {
    return bad("train.micro_batches",
               "each of " + std::to_string(paths) + " paths has an equal part of a batch; use a multiple of that");
  }
  const std::size_t levels = versions.size(), blocks = static_cast<std::size_t>(s.model.layers);
  const std::size_t each = blocks_of_level(s, levels);
  if (levels > blocks || (blocks + each - 1) / each != levels) {
    return bad("comm.paths", std::to_string(levels) + " levels need as many parts of model.layers (" +
                                 std::to_string(blocks) + ") blocks; use fewer levels, or a multiple of them as layers");
  }
  if (s.comm.route_prefix < 1) return bad("comm.route_prefix", "use 1 or more");
  if (s.comm.route_top < 1 || s.comm.route_top > paths) {
    return bad("comm.route_top", "use 1 up to the number of paths (" + std::to_string(paths) + ")");
  }
  if (changes_peers(s) && s.comm.route_again != 0) {
    return bad("comm.route_again",
               "a router of the paths' own losses is made by a fixed set of peers; use 0 with fault.policy quorum");
  }
  if (s.comm.local_steps != 0 && s.comm.route_again % s.comm.local_steps == 0) return {};
  return bad("comm.route_again", "documents are sorted anew between rounds; use a multiple of comm.local_steps (" +
                                     std::to_string(s.comm.local_steps) + "), or 0");
}

}  // namespace app
