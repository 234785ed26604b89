// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PARALLEL_ELASTIC_BLOCK_SEGMENTS_HPP
#define CAUSEWAY_PARALLEL_ELASTIC_BLOCK_SEGMENTS_HPP

// Whose gradients of which blocks a communication policy exchanges with whose, where pipelines may be cut in different
// ways: the blocks of a model in ranges that no pipeline cuts, each exchanged among those who compute it. Who keeps blocks
// without computing them gets what that came to from who does, in its pipeline. Where all pipelines are cut alike, and
// nobody keeps more than its stage, the segments are the stages. A function of the layout, so all peers have the same.

#include <causeway/config/config.hpp>
#include <causeway/nn/model_part.hpp>
#include <causeway/parallel/elastic/block_moves.hpp>
#include <causeway/parallel/elastic/cohorts.hpp>
#include <causeway/parallel/tied_table.hpp>
#include <causeway/stage/layout.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace parallel {

/// Who computes a block in one pipeline. Where nobody is in the place of its stage, another who keeps it does.
CAUSEWAY_DECL [[nodiscard]] std::uint64_t computer_of(const stage::replica& r, std::int64_t block);

/// Blocks that no pipeline cuts, and who computes them, by their pipelines' parts of a batch.
struct block_segment {
  nn::block_range blocks;
  stage_holders computers;  ///< one in each pipeline

  [[nodiscard]] bool is_computed_by(std::uint64_t peer) const;
};

/// All of a model's, rising.
CAUSEWAY_DECL [[nodiscard]] std::vector<block_segment> segments_of(const stage::layout& l, std::int64_t layers);

/// What peers of one pipeline hold without computing it.
struct kept_run {
  nn::block_range blocks{};          ///< without a tied table
  bool table = false;                ///< or it is that: the first stage exchanges it, and the last has it, too
  std::vector<std::uint64_t> peers;  ///< who computes it, then the others
};

/// All of one pipeline's: a tied table, if the model has one, then blocks, rising.
CAUSEWAY_DECL [[nodiscard]] std::vector<kept_run> kept_runs(const stage::replica& r, std::int64_t layers, bool tied);

/// Where they lie in a flat buffer of the model. Precondition: this peer holds them.
[[nodiscard]] std::span<float> place_of(const kept_run& run, auto& model, std::span<float> flat) {
  return run.table ? table_in(model, flat) : untied_blocks_in(model, flat, run.blocks);
}

}}}  // namespace causeway::CAUSEWAY_ABI::parallel

#ifndef CAUSEWAY_COMPILED
#include <causeway/parallel/elastic/impl/block_segments.ipp>
#endif

#endif  // CAUSEWAY_PARALLEL_ELASTIC_BLOCK_SEGMENTS_HPP
