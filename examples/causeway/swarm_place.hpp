// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_EXAMPLES_SWARM_PLACE_HPP
#define CAUSEWAY_EXAMPLES_SWARM_PLACE_HPP

// Which stage of a swarm a process serves, and whom it finds there. The peers of a stage are a membership of their own,
// with a folder `stage-S` in the peer's and a network of their own; the swarm is a second network over all stages.

#include <causeway/core/result.hpp>
#include <causeway/nn/model_part.hpp>
#include <causeway/parallel/swarm/swarm_peer.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "peer_folder.hpp"
#include "peer_talk.hpp"
#include "settings.hpp"

namespace app {

/// Of the swarm that `s` describes.
[[nodiscard]] std::uint32_t stages_of(const settings& s);
/// The blocks of a stage: as even as they can be.
[[nodiscard]] causeway::nn::block_range blocks_of(const settings& s, std::uint32_t stage);
/// Whether parallel.paths fit the stages, where the router takes them.
[[nodiscard]] causeway::result<void> check_paths(const settings& s);
/// Peers that a stage waits for before its first step.
[[nodiscard]] std::uint32_t founders_of(const settings& s, std::uint32_t stage);
/// Names the membership of a stage on the wire.
[[nodiscard]] std::uint64_t stage_run_id(std::uint64_t run_id, std::uint32_t stage);
[[nodiscard]] std::string stage_folder(const std::string& peer_folder, std::uint32_t stage);
[[nodiscard]] std::string stage_journal(std::uint32_t stage);

/// The stage that a peer is to serve, and whom it joins there.
struct chosen_stage {
  std::uint32_t stage = 0;
  std::vector<std::string> mates;  ///< addresses of its stage's membership; none: this peer founds it
};

/// The stage that this peer served before; none: it is new, or was never in.
[[nodiscard]] std::optional<std::uint32_t> stage_before(const peer_folder& mine);
/// It serves this one from now on, also when it is started again.
causeway::result<void> keep_stage(const peer_folder& mine, std::uint32_t stage);

/// The stage that this peer is to serve: where the settings say, where it was before, by its number if a launcher started
/// it, else where it is needed most. `assignments`: those of the peers that a newcomer was told of.
causeway::result<chosen_stage> choose_stage(const settings& s, const std::string& run_folder, const peer_folder& mine,
                                            std::span<const swarm_assignment> assignments);

/// The stage with the least speed, in micro-batches a second; with the fewest peers, as long as not all have shown theirs.
/// Stages without peers are left out: their weights are on the disks of those who had them. None: there are no others.
[[nodiscard]] std::optional<std::uint32_t> neediest(std::span<const swarm_assignment> assignments, std::uint32_t stages);

/// What the library's peer is told of its place, but for others' addresses.
[[nodiscard]] causeway::parallel::swarm_options swarm_options_of(const settings& s, std::uint64_t run_id,
                                                                 std::uint32_t stage);
/// The library's peer, with the router that the settings name.
[[nodiscard]] std::shared_ptr<causeway::parallel::swarm_peer> make_swarm_peer(const settings& s,
                                                                              std::shared_ptr<causeway::net::fabric> over,
                                                                              causeway::parallel::swarm_options options,
                                                                              const causeway::log_sink& log);

}  // namespace app

#endif  // CAUSEWAY_EXAMPLES_SWARM_PLACE_HPP
