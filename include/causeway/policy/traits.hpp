// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_POLICY_TRAITS_HPP
#define CAUSEWAY_POLICY_TRAITS_HPP

// What each kind of policy says about itself, as plain constants. The type of a policy's `traits` also says which slot of a
// trainer it belongs to. The rules over traits are in policy/rules.hpp.

#include <causeway/config/config.hpp>

#include <cstdint>

namespace causeway { inline namespace CAUSEWAY_ABI {

/// Whether the set of peers may change during a run.
enum class peers : std::uint8_t { fixed, elastic };

/// What a fault policy decides about an attempted step.
enum class verdict : std::uint8_t {
  commit,  ///< keep it; after a failed phase: the others finished the step, and this peer holds what came of it
  retry,   ///< do the failed phase again; what was computed is kept
  abort,   ///< give up; the step's error goes to the caller
};

/// A communication policy: when peers talk and what they make of it.
struct comm_traits {
  peers tolerates = peers::fixed;    ///< whether it still works when peers come and go
  bool exchanges_gradients = false;  ///< whether all who hold the same parameters make every step together, of one gradient
  bool identical_replicas = true;    ///< whether all peers hold the same parameters after each committed round
  bool rounds_by_steps = true;       ///< whether rounds come after the same steps on all peers, whatever they are given
  bool rounds_over_stages = false;   ///< or if all stages of a model are asked (training_context::stages), or need not be
  bool sums_gradients = false;  ///< whether parts of a gradient may be given to it, which have to be added up as they are
  bool allows_late_steps = false;  ///< peers may take a step when an exchange is attempted, or add to what they gather
  bool moves_with_blocks =
      false;                     ///< what it keeps for each parameter can go with that to another peer, and is all it keeps
  bool rows_in_parts = false;    ///< then: in rows of ranges of blocks, among peers each of which holds others besides
  bool own_parameters = false;   ///< each peer has its own: a newcomer gets some from those whom it meets
  bool trains_paths = false;     ///< a newcomer, a pipeline or a peer of a swarm's stage is given a path through modules
  bool in_regions = false;       ///< a pipeline is given a region, which has shared parameters of its own (`regions`)
  bool gathers_samples = false;  ///< a round is so many samples of all peers together: a member needs as many at hand
  bool rounds_by_clock = false;  ///< rounds come when peers have trained for some time: each has made other steps then
  bool looks_ahead = false;      ///< gradients are taken at parameters of each peer's own, by its hook `compute`
  bool replays = false;          ///< a round that this peer missed can be made again from its mean (`replay`)
  bool draws_peers = false;      ///< who was not drawn for the next exchange rests until then (`trains`)
  bool divides_batches = false;  ///< its peers share each batch out by what they told each other (`part_of_batch`)
  bool talks_between = false;    ///< its peers answer each other between two exchanges, too (`meanwhile`)
  bool takes_turns = false;      ///< its exchanges can be under one record with another policy's (comm::stacked)
  std::uint32_t rounds_at_hand = 1;  ///< rounds that a member needs samples for (member_options); late results: two
};

/// A parallelism policy: how a batch becomes gradients.
struct parallel_traits {
  bool staged = false;            ///< the model is cut into stages on several peers
  bool reroutes = false;          ///< a lost peer's work goes to another of its stage
  bool global_step = true;        ///< all stages finish the same step together; holders of the same one always do
  bool sums_over_stages = false;  ///< a policy can ask all of them: see training_context::stages
  bool shares_gradient = false;   ///< a peer's gradient is a part of its stage's, which must be exchanged in every step
  bool gathers_together = false;  ///< all peers know alike how many samples of gradients they gather, and step together
  bool moves_blocks = false;      ///< replicas take steps of their own, and blocks move between peers after an exchange
  bool cut_apart = false;         ///< holders of a block may hold others besides, each of them different ones
  bool rows_in_parts = false;     ///< but ranges of them are exchanged one by one, where the policy can do that
  bool repeats_work = false;      ///< peers repeat forwards of others, and go on from them when those are lost
  bool detours = false;           ///< micro-batches may go through replicas that have other parameters at the time
  bool computes_late = false;     ///< what is missing is computed, and stepped on, when a round's exchange is attempted
};

/// A fault policy: what a step is worth when somebody is slow, gone or lying.
struct fault_traits {
  peers produces = peers::fixed;  ///< whether peers may come and go under it
  bool refills_stage = false;     ///< it gives a lost peer's stage to somebody else
  bool retries = false;           ///< it may ask for a failed phase again; exchanges then keep their inputs
};

}}  // namespace causeway::CAUSEWAY_ABI

#endif  // CAUSEWAY_POLICY_TRAITS_HPP
