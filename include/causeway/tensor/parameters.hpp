// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TENSOR_PARAMETERS_HPP
#define CAUSEWAY_TENSOR_PARAMETERS_HPP

// A model's parameters as one flat f32 buffer with named pieces, and the gradients beside it in the same layout.
// Optimizers, codecs, collectives and checkpoints see the flat buffers; layers see their pieces. Every piece starts on a
// 64-byte boundary; the padding between pieces is always zero.

#include <causeway/config/config.hpp>
#include <causeway/core/hash.hpp>
#include <causeway/core/thread_pool.hpp>
#include <causeway/tensor/buffer.hpp>
#include <causeway/tensor/dtype.hpp>

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI {

/// What a parameter is, as far as optimizers care.
enum class parameter_kind : std::uint8_t {
  matrix,     ///< a hidden layer's weight: decayed; Muon's business
  embedding,  ///< token or position table, or the output head: decayed; never Muon's
  vector,     ///< bias or gain: not decayed
};

/// One named piece: `rows` × `columns` row-major values starting at `offset`. A vector has one row.
struct parameter_segment {
  std::string name;
  parameter_kind kind = parameter_kind::matrix;
  std::int64_t rows = 1;
  std::int64_t columns = 0;
  std::int64_t offset = 0;
  int block = -1;  ///< the transformer block it belongs to; -1 before the first, the number of blocks after the last

  [[nodiscard]] std::int64_t size() const noexcept { return rows * columns; }
};

/// The values in bf16, in their layout. Who writes all values may write these along, rounded, and say so in `made`.
struct low_precision_copies {
  bf16* values = nullptr;
  bool made = false;
};

/// What an optimizer works on: values and gradients of equal length, and how they are cut.
struct parameter_view {
  std::span<float> values;
  std::span<float> gradients;
  std::span<const parameter_segment> segments;
  low_precision_copies* copies = nullptr;  ///< none: nobody wants them written along
};

/// The values of a flat buffer of `length` that belong to no tensor.
inline std::vector<index_range> padding_of(std::span<const parameter_segment> segments, std::size_t length) {
  std::vector<index_range> padding;
  for (std::size_t i = 0; i < segments.size(); ++i) {
    const std::int64_t end = i + 1 < segments.size() ? segments[i + 1].offset : static_cast<std::int64_t>(length);
    const std::int64_t used = segments[i].offset + segments[i].size();
    if (used < end) padding.push_back({used, end});
  }
  return padding;
}

/// One value for each parameter, padding included, in pieces that may lie apart; in the order of the flat buffer.
struct parameter_row {
  std::vector<std::span<float>> pieces;

  /// Calls `f` with what there is of `count` values from `begin` on, piece by piece.
  template <class F>
  void visit(std::size_t begin, std::size_t count, F&& f) const {
    for (const std::span<float> piece : pieces) {
      const std::size_t from = std::min(begin, piece.size());
      const std::size_t size = std::min(count, piece.size() - from);
      if (size > 0) f(piece.subspan(from, size));
      begin -= from, count -= size;
    }
  }
};

/// Calls `f(from, to)` with the places of every piece that both layouts have, by name. Precondition: pieces of one name
/// have one size.
template <class F>
  requires std::invocable<F&, const parameter_segment&, const parameter_segment&>
void for_common_pieces(std::span<const parameter_segment> from, std::span<const parameter_segment> to, F&& f) {
  for (const parameter_segment& t : to) {
    const auto found = std::find_if(from.begin(), from.end(), [&](const auto& s) { return s.name == t.name; });
    if (found != from.end()) f(*found, t);
  }
}

/// Owns the buffers. Add all segments first, then `allocate()`. Not safe to share between threads.
class parameter_store {
 public:
  /// Adds a piece and returns its number.
  std::size_t add(std::string name, parameter_kind kind, std::int64_t rows, std::int64_t columns, int block = -1) {
    segments_.push_back({std::move(name), kind, rows, columns, length_, block});
    constexpr std::int64_t line = 64 / sizeof(float);
    length_ += (rows * columns + line - 1) / line * line;
    count_ += rows * columns;
    return segments_.size() - 1;
  }

  /// Reserves both buffers, zeroed.
  void allocate(const memory_source& source = {}) {
    allocate_values(source);
    gradients_ = aligned_buffer<float>{static_cast<std::size_t>(length_), source};
  }
  /// The values alone: frozen parameters, whose `gradient` is null.
  void allocate_values(const memory_source& source = {}) {
    values_ = aligned_buffer<float>{static_cast<std::size_t>(length_), source};
  }

  [[nodiscard]] std::span<float> values() noexcept { return values_.span(); }
  [[nodiscard]] std::span<const float> values() const noexcept { return values_.span(); }
  [[nodiscard]] std::span<float> gradients() noexcept { return gradients_.span(); }
  [[nodiscard]] std::span<const parameter_segment> segments() const noexcept { return segments_; }
  [[nodiscard]] parameter_view view() noexcept { return {values(), gradients(), segments_}; }

  /// Where a model keeps the values in bf16, as long as the flat buffers; nullptr: nowhere.
  void keep_copies(bf16* at) noexcept { copies_ = {at, false}; }
  /// The view of who touches the store right after a step, and changes no value between.
  [[nodiscard]] parameter_view view_with_copies() noexcept {
    copies_.made = false;
    return {values(), gradients(), segments_, copies_.values != nullptr ? &copies_ : nullptr};
  }

  [[nodiscard]] float* value(std::size_t segment) noexcept { return values_.data() + segments_[segment].offset; }
  [[nodiscard]] float* gradient(std::size_t segment) noexcept {
    return gradients_.size() == 0 ? nullptr : gradients_.data() + segments_[segment].offset;
  }

  /// Number of parameters, padding not counted.
  [[nodiscard]] std::int64_t count() const noexcept { return count_; }
  /// Length of the flat buffers, padding counted.
  [[nodiscard]] std::int64_t length() const noexcept { return length_; }

  /// Call after changing values from outside the model, so that low-precision copies are made anew.
  void touch() noexcept {
    ++version_;
    if (std::exchange(copies_.made, false)) copied_version_ = version_;
  }
  [[nodiscard]] std::uint64_t version() const noexcept { return version_; }
  /// Whether the copies are of the values of now.
  [[nodiscard]] bool has_copies() const noexcept { return copied_version_ == version_; }

  /// A hash of names and shapes: equal on peers that can share a run.
  [[nodiscard]] std::uint64_t layout_hash() const noexcept {
    hasher h;
    for (const auto& s : segments_) {
      h.add_value(hash_text(s.name)).add_value(s.rows).add_value(s.columns).add_value(s.offset);
    }
    return h.finish();
  }

 private:
  std::vector<parameter_segment> segments_;
  aligned_buffer<float> values_;
  aligned_buffer<float> gradients_;
  std::int64_t length_ = 0;
  std::int64_t count_ = 0;
  std::uint64_t version_ = 1;
  low_precision_copies copies_;
  std::uint64_t copied_version_ = 0;
};

}}  // namespace causeway::CAUSEWAY_ABI

#endif  // CAUSEWAY_TENSOR_PARAMETERS_HPP
