// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_NN_MODEL_PART_HPP
#define CAUSEWAY_NN_MODEL_PART_HPP

// Which blocks of a model a peer holds. Whoever holds block 0 holds the embedding too, whoever holds the last block the
// output layer; a token table that is both is then held at both ends. Where clients have the ends and servers the blocks,
// each is a part by itself. In a model with joined ends these are block 0.

#include <causeway/config/config.hpp>
#include <causeway/core/error.hpp>
#include <causeway/core/result.hpp>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace nn {

/// Blocks [first, last) of a model. The part that starts at 0 has the embedding too, the one that ends at the number of
/// blocks the output layer; every part has at least one block.
struct block_range {
  std::int64_t first = 0;
  std::int64_t last = 0;

  [[nodiscard]] std::int64_t size() const noexcept { return last - first; }
  [[nodiscard]] bool contains(std::int64_t block) const noexcept { return first <= block && block < last; }
  friend constexpr bool operator==(const block_range&, const block_range&) = default;
};

/// What a pass through a range of blocks computes: some layers, before them the embedding, behind them the output layer.
struct stage_way {
  block_range layers;
  bool embeds = false;
  bool ends = false;

  /// Of a model with so many blocks. `joined_ends`: embedding and output layer are block 0. Alone that is the embedding, or
  /// for what comes from another stage (`has_input`) the output layer; it is both in a pass through the whole model.
  CAUSEWAY_DECL [[nodiscard]] static stage_way of(const block_range& r, std::int64_t blocks, bool joined_ends,
                                                  bool has_input) noexcept;
};

/// Ranges of blocks, rising and apart; several where a peer has several chunks of a pipeline.
class model_part {
 public:
  /// All of a model.
  model_part() = default;
  CAUSEWAY_DECL explicit model_part(std::vector<block_range> ranges);
  CAUSEWAY_DECL explicit model_part(block_range range);

  /// Embedding and output layer, and no block.
  CAUSEWAY_DECL [[nodiscard]] static model_part ends();
  /// Blocks, and nothing of what stands before the first and behind the last.
  CAUSEWAY_DECL [[nodiscard]] static model_part blocks_alone(block_range range);

  /// The ranges in a model of `layers` blocks.
  CAUSEWAY_DECL [[nodiscard]] std::vector<block_range> ranges(std::int64_t layers) const;
  CAUSEWAY_DECL [[nodiscard]] bool is_whole(std::int64_t layers) const;
  [[nodiscard]] bool holds(std::int64_t block) const noexcept { return holds(block_range{block, block + 1}); }
  CAUSEWAY_DECL [[nodiscard]] bool holds(const block_range& wanted) const noexcept;

  /// Whether parameters of `block` are here, in a model of `layers`: before the first (-1) and behind the last (`layers`)
  /// as well.
  CAUSEWAY_DECL [[nodiscard]] bool holds_parameters(std::int64_t block, std::int64_t layers) const noexcept;

  /// Ranges must rise, not be empty, not touch each other, and lie within the model.
  CAUSEWAY_DECL [[nodiscard]] result<void> check(std::int64_t layers) const;

  CAUSEWAY_DECL [[nodiscard]] static std::string text(const block_range& r);

 private:
  std::vector<block_range> ranges_;  // none: all blocks
  bool has_blocks_ = true;
  bool has_ends_ = true;
};

}}}  // namespace causeway::CAUSEWAY_ABI::nn

#ifndef CAUSEWAY_COMPILED
#include <causeway/nn/impl/model_part.ipp>
#endif

#endif  // CAUSEWAY_NN_MODEL_PART_HPP
