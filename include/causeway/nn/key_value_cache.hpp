// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_NN_KEY_VALUE_CACHE_HPP
#define CAUSEWAY_NN_KEY_VALUE_CACHE_HPP

// What attention needs of the tokens that a text has so far, so that the next one costs a single row and not the whole text
// again. Of one model, for as long as its parameters stay as they are.

#include <causeway/config/config.hpp>
#include <causeway/tensor/buffer.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace nn {

/// Keys and values of each block, rotated where the model rotates them. Memory: blocks · context · 2 · width of the key and
/// value heads · size of an activation, taken when the first token comes.
class key_value_cache {
 public:
  key_value_cache(std::int64_t blocks, std::int64_t context) : rows_(static_cast<std::size_t>(blocks)), context_{context} {}

  /// Tokens that it has seen.
  [[nodiscard]] std::int64_t length() const noexcept { return length_; }
  [[nodiscard]] std::int64_t context() const noexcept { return context_; }
  /// For another text.
  void clear() noexcept { length_ = 0; }

  /// Puts `count` rows of `columns` elements, which are `stride` apart, behind those of `block`. They count once `advance`
  /// is called, after all blocks.
  template <class Act>
  void keep(std::size_t block, const Act* from, std::int64_t count, std::int64_t stride, std::int64_t columns) {
    CAUSEWAY_EXPECT(length_ + count <= context_);
    const auto bytes = static_cast<std::size_t>(columns) * sizeof(Act);
    auto& rows = rows_[block];
    if (rows.size() == 0) rows = aligned_buffer<std::byte>{static_cast<std::size_t>(context_) * bytes};
    for (std::int64_t i = 0; i < count; ++i) {
      std::memcpy(rows.data() + static_cast<std::size_t>(length_ + i) * bytes, from + i * stride, bytes);
    }
  }
  void advance(std::int64_t count) noexcept { length_ += count; }

  /// The rows of a block, in the type that they were kept in.
  template <class Act>
  [[nodiscard]] const Act* rows(std::size_t block) const noexcept {
    return reinterpret_cast<const Act*>(rows_[block].data());
  }

 private:
  std::vector<aligned_buffer<std::byte>> rows_;
  std::int64_t context_;
  std::int64_t length_ = 0;
};

}}}  // namespace causeway::CAUSEWAY_ABI::nn

#endif  // CAUSEWAY_NN_KEY_VALUE_CACHE_HPP
