// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PARALLEL_IMPL_PART_CHANGE_IPP
#define CAUSEWAY_PARALLEL_IMPL_PART_CHANGE_IPP

// Bodies of parallel/part_change.hpp.

#include <causeway/parallel/part_change.hpp>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace parallel {

CAUSEWAY_DECL part_change::part_change(block_ownership& held, const crew_words& words, const crew_facts& facts,
                                       const stage::layout& to, const block_roads& roads)
    : held_{held},
      words_{words},
      facts_{facts},
      roads_{roads},
      moves_{moves_for(to, facts.gathered)},
      made_{made_up_for(facts.gathered)},
      sources_{sources_of(made_, to, facts.gathered)} {}

CAUSEWAY_DECL result<void> part_change::exchange(const net::message_id& id, std::span<const block_move> moves,
                                                 const by_block& outward, by_block& inward) {
  return move_blocks(roads_.transport, id, roads_.deadline, moves, facts_.self, facts_.index_of, outward, inward);
}

}}}  // namespace causeway::CAUSEWAY_ABI::parallel

#endif  // CAUSEWAY_PARALLEL_IMPL_PART_CHANGE_IPP
