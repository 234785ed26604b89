// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PARALLEL_ELASTIC_SAVED_ROUNDS_HPP
#define CAUSEWAY_PARALLEL_ELASTIC_SAVED_ROUNDS_HPP

// The shared state of a run of pipelines in a store of blocks: each block by the first of its holders, and what the
// communication policy keeps alike, if anything, as one block more, behind the last.

#include <causeway/core/result.hpp>
#include <causeway/parallel/elastic/block_ownership.hpp>
#include <causeway/parallel/elastic/block_savers.hpp>
#include <causeway/parallel/elastic/block_store.hpp>
#include <causeway/parallel/elastic/cohort_exchange.hpp>
#include <causeway/parallel/elastic/step_group.hpp>
#include <causeway/stage/layout.hpp>

#include <cstdint>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace parallel {

/// `blocks` is a shared_blocks of a peer that is there; `self` its id.
struct saved_rounds {
  block_savers savers{};

  /// What a whole state consists of: a model's blocks, and one more where the policy keeps something alike.
  [[nodiscard]] static std::int64_t units(std::int64_t layers, const exchange_state& state) {
    return layers + (state.alike.empty() ? 0 : 1);
  }
  result<saved_states> found(std::int64_t layers, const exchange_state& state) {
    return savers.found(units(layers, state));
  }

  /// What this peer is the first to hold of those that reach its storage, if it has one.
  result<void> save(auto& blocks, block_ownership& held, const stage::layout& l, const step_record& record,
                    const exchange_state& state, std::uint64_t self) {
    CAUSEWAY_TRY(save_if(blocks, held, record, [&](std::int64_t b) { return savers.is_first(l.holders(b), self); }));
    if (state.alike.empty() || !savers.saves() || !savers.is_first(l.assigned(), self)) return {};
    block_store store = *savers.store();
    return store.save(record, blocks.model().blocks(), as_numbers(state));
  }

  /// Blocks of the state that the run is in, as far as this peer has it, and `ours(block)` says so. A peer that is alone
  /// may save any.
  template <class Ours>
  result<void> save_if(auto& blocks, block_ownership& held, const step_record& record, Ours&& ours) {
    if (!savers.saves()) return {};
    for (const nn::block_range& r : held.described(record, blocks.model().blocks()).holds) {
      for (std::int64_t b = r.first; b < r.last; ++b) {
        if (blocks.model().part().holds(b) && ours(b)) CAUSEWAY_TRY(held.save(blocks, b, record));
      }
    }
    return {};
  }

  /// The run went back to `record`, of which `found` is here. Whether what the policy keeps alike is, and was put back.
  result<bool> load(const saved_states& found, const step_record& record, std::int64_t layers, block_ownership& held,
                    const exchange_state& state) {
    const saved_blocks here = blocks_of(found, record);
    held.went_back(record, here);
    if (!here.has(layers)) return false;
    block_store store = *savers.store();
    std::vector<float> alike = as_numbers(state);
    CAUSEWAY_TRY(store.load(record, layers, alike));
    put_numbers(state, alike);
    return true;
  }
};

}}}  // namespace causeway::CAUSEWAY_ABI::parallel

#endif  // CAUSEWAY_PARALLEL_ELASTIC_SAVED_ROUNDS_HPP
