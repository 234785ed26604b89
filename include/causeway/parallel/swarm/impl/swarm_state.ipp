// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PARALLEL_SWARM_IMPL_SWARM_STATE_IPP
#define CAUSEWAY_PARALLEL_SWARM_IMPL_SWARM_STATE_IPP

#include <causeway/parallel/swarm/swarm_state.hpp>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace parallel {

CAUSEWAY_DECL swarm_state::swarm_state(std::shared_ptr<net::fabric> over, swarm_options of, log_sink to)
    : fabric{std::move(over)},
      options{std::move(of)},
      log{std::move(to)},
      directory{fabric->id(), options.stages},
      micro_batches{fabric->id(), options.stage, options.stages},
      run{options.run} {}

CAUSEWAY_DECL swarm_wire::status swarm_state::status() const {
  return {options.stage,
          serving ? std::uint8_t{1} : std::uint8_t{0},
          micro_batches.turn(),
          followed.term,
          coordinates ? std::uint8_t{1} : std::uint8_t{0},
          queue.mean(),
          seconds,
          {own_sums[0], own_sums[1]},
          part,
          committed,
          own_decided,
          module_path,
          on_path ? std::uint8_t{1} : std::uint8_t{0},
          paths};
}

CAUSEWAY_DECL void swarm_state::round_is_over(bool for_all) {
  leaves_path = true;
  if (for_all) last_round = micro_batches.turn();
}

CAUSEWAY_DECL void swarm_state::begin_on_path() {
  if (std::exchange(leaves_path, false)) on_path = false;
}

}}}  // namespace causeway::CAUSEWAY_ABI::parallel

#endif  // CAUSEWAY_PARALLEL_SWARM_IMPL_SWARM_STATE_IPP
