// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PARALLEL_ELASTIC_IMPL_PART_CHANGE_IPP
#define CAUSEWAY_PARALLEL_ELASTIC_IMPL_PART_CHANGE_IPP

#include <causeway/parallel/elastic/part_change.hpp>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace parallel {

CAUSEWAY_DECL part_change::part_change(block_ownership& held, const step_record& record, const cluster_inventory& inventory,
                                       const stage::layout& to, std::vector<stage::made_up_block> made,
                                       const block_roads& roads)
    : held_{held},
      record_{record},
      inventory_{inventory},
      roads_{roads},
      moves_{moves_for(to, inventory.snapshot)},
      made_{std::move(made)},
      sources_{sources_of(made_, to, inventory.snapshot)} {}

CAUSEWAY_DECL result<void> part_change::exchange(const net::message_id& id, const std::vector<block_move>& moves,
                                                 const by_block& outward, by_block& inward) {
  return move_blocks(roads_.transport, id, roads_.deadline, moves, inventory_.self, inventory_.index_of, outward, inward);
}

}}}  // namespace causeway::CAUSEWAY_ABI::parallel

#endif  // CAUSEWAY_PARALLEL_ELASTIC_IMPL_PART_CHANGE_IPP
