// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PARALLEL_ELASTIC_BLOCK_SEGMENTS_HPP
#define CAUSEWAY_PARALLEL_ELASTIC_BLOCK_SEGMENTS_HPP

// Whose gradients of which blocks a communication policy exchanges with whose, where pipelines may be cut in different
// ways: the blocks of a model in ranges that no pipeline cuts, each exchanged among those who compute it. Who keeps blocks
// without computing them gets what that came to from who does, in its pipeline. Where all pipelines are cut alike, and
// nobody keeps more than its stage, the segments are the stages. A function of the layout, so all peers have the same.

#include <causeway/config/config.hpp>
#include <causeway/nn/model_part.hpp>
#include <causeway/parallel/elastic/cohorts.hpp>
#include <causeway/parallel/tied_table.hpp>
#include <causeway/stage/layout.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace parallel {

/// Blocks that no pipeline cuts, and who computes them.
struct block_segment {
  nn::block_range blocks;
  row_shares computers;

  CAUSEWAY_DECL [[nodiscard]] bool is_computed_by(std::uint64_t peer) const;
};

/// All of a model's, rising.
CAUSEWAY_DECL [[nodiscard]] std::vector<block_segment> segments_of(const stage::layout& l, std::int64_t layers);

/// Of the gradient that the peer `last` has of the table as output layer, the part that `first`, which has it as embedding,
/// sends with its own.
struct table_part {
  std::uint64_t first = 0, last = 0;
  float share = 1;
};
/// All such parts, in the order in which they are added. Of a pipeline with both ends that is all of the last's to the
/// first. Where micro-batches take detours, each first has the parts of as many as went through it itself, so that what it
/// sends counts by one number. None of a peer to itself. Precondition: each pipeline has a micro-batch.
CAUSEWAY_DECL [[nodiscard]] std::vector<table_part> table_parts(const stage::layout& l, std::int64_t layers);

/// What peers of one pipeline hold without computing it.
struct kept_run {
  nn::block_range blocks{};          ///< without a tied table
  bool table = false;                ///< or it is that: the first stage exchanges it, and the last has it, too
  std::vector<std::uint64_t> peers;  ///< who computes it, then the others
};

/// A tied table, if the model has one, in each pipeline (where that has no first stage, from another's), then blocks of
/// pipeline `replica`, rising.
CAUSEWAY_DECL [[nodiscard]] std::vector<kept_run> kept_runs(const stage::layout& l, std::size_t replica,
                                                            std::int64_t layers, bool tied);

/// Where they lie in a flat buffer of the model. Precondition: this peer holds them.
[[nodiscard]] std::span<float> place_of(const kept_run& run, auto& model, std::span<float> flat) {
  return run.table ? table_in(model, flat) : untied_blocks_in(model, flat, run.blocks);
}

}}}  // namespace causeway::CAUSEWAY_ABI::parallel

#ifndef CAUSEWAY_COMPILED
#include <causeway/parallel/elastic/impl/block_segments.ipp>
#endif

#endif  // CAUSEWAY_PARALLEL_ELASTIC_BLOCK_SEGMENTS_HPP
