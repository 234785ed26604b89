// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_NN_MODEL_PART_HPP
#define CAUSEWAY_NN_MODEL_PART_HPP

// Which blocks of a model a peer holds. Whoever holds block 0 holds the embedding too, whoever holds the last block the
// output layer; a token table that is both is then held at both ends. Where clients have the ends and servers the blocks,
// each is a part by itself.

#include <causeway/config/config.hpp>
#include <causeway/core/error.hpp>
#include <causeway/core/result.hpp>

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace causeway::inline CAUSEWAY_ABI::nn {

/// Blocks [first, last) of a model. The part that starts at 0 has the embedding too, the one that ends at the number of
/// blocks the output layer; every part has at least one block.
struct block_range {
  std::int64_t first = 0;
  std::int64_t last = 0;

  [[nodiscard]] std::int64_t size() const noexcept { return last - first; }
  friend constexpr bool operator==(const block_range&, const block_range&) = default;
};

/// Ranges of blocks, rising and apart; several where a peer has several chunks of a pipeline.
class model_part {
 public:
  /// All of a model.
  model_part() = default;
  explicit model_part(std::vector<block_range> ranges) : ranges_{std::move(ranges)} {}
  explicit model_part(block_range range) : ranges_{range} {}

  /// Embedding and output layer, and no block.
  [[nodiscard]] static model_part ends() {
    model_part p;
    p.has_blocks_ = false;
    return p;
  }
  /// Blocks, and nothing of what stands before the first and behind the last.
  [[nodiscard]] static model_part blocks_alone(block_range range) {
    model_part p{range};
    p.has_ends_ = false;
    return p;
  }

  /// The ranges in a model of `layers` blocks.
  [[nodiscard]] std::vector<block_range> ranges(std::int64_t layers) const {
    if (!has_blocks_) return {};
    return ranges_.empty() ? std::vector<block_range>{{0, layers}} : ranges_;
  }
  [[nodiscard]] bool is_whole(std::int64_t layers) const {
    if (!has_blocks_ || !has_ends_) return false;
    return ranges_.empty() || (ranges_.size() == 1 && ranges_[0] == block_range{0, layers});
  }
  [[nodiscard]] bool holds(std::int64_t block) const noexcept { return holds(block_range{block, block + 1}); }
  [[nodiscard]] bool holds(const block_range& wanted) const noexcept {
    if (!has_blocks_) return false;
    return ranges_.empty() || std::any_of(ranges_.begin(), ranges_.end(), [&wanted](const block_range& r) {
             return r.first <= wanted.first && wanted.last <= r.last;
           });
  }

  /// Whether parameters of `block` are here, in a model of `layers`: before the first (-1) and behind the last (`layers`)
  /// as well.
  [[nodiscard]] bool holds_parameters(std::int64_t block, std::int64_t layers) const noexcept {
    const bool end = block < 0 || block >= layers;
    if (!has_blocks_) return end;
    if (!has_ends_) return !end && holds(block);
    return holds(std::clamp(block, std::int64_t{0}, layers - 1));
  }

  /// Ranges must rise, not be empty, not touch each other, and lie within the model.
  [[nodiscard]] result<void> check(std::int64_t layers) const {
    std::int64_t from = 0;
    for (const block_range& r : ranges_) {
      if (r.first < from || r.last <= r.first || r.last > layers) {
        return fail(errc::invalid_argument, "model part",
                    "blocks " + text(r) + " of a model with " + std::to_string(layers) +
                        "; ranges must rise, be apart and have at least one block");
      }
      from = r.last + 1;
    }
    return {};
  }

  [[nodiscard]] static std::string text(const block_range& r) {
    return "[" + std::to_string(r.first) + ", " + std::to_string(r.last) + ")";
  }

 private:
  std::vector<block_range> ranges_;  // none: all blocks
  bool has_blocks_ = true;
  bool has_ends_ = true;
};

}  // namespace causeway::inline CAUSEWAY_ABI::nn

#endif  // CAUSEWAY_NN_MODEL_PART_HPP
