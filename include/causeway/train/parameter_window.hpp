// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TRAIN_PARAMETER_WINDOW_HPP
#define CAUSEWAY_TRAIN_PARAMETER_WINDOW_HPP

// What a communication policy sees of the parameters where it has some of this peer's blocks, and others of its kind the
// rest (train/by_segment.hpp).

#include <causeway/config/config.hpp>
#include <causeway/tensor/parameters.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace detail {

/// A part of a model's flat buffers; by default all of them. A regular value, for as long as the model has the same part.
class parameter_window {
 public:
  parameter_window() = default;
  /// `part`: of the values of `all`.
  parameter_window(const parameter_view& all, std::span<const float> part)
      : begin_{static_cast<std::size_t>(part.data() - all.values.data())}, size_{part.size()} {
    const auto first = static_cast<std::int64_t>(begin_), last = static_cast<std::int64_t>(begin_ + size_);
    for (const parameter_segment& s : all.segments) {
      if (s.offset < first || s.offset >= last) continue;
      segments_.push_back(s);
      segments_.back().offset -= first;
    }
  }

  [[nodiscard]] parameter_view of(const parameter_view& all) const {
    if (segments_.empty()) return all;
    return {all.values.subspan(begin_, size_), all.gradients.subspan(begin_, size_), segments_};
  }

 private:
  std::size_t begin_ = 0, size_ = 0;
  std::vector<parameter_segment> segments_;
};

}}}  // namespace causeway::CAUSEWAY_ABI::detail

#endif  // CAUSEWAY_TRAIN_PARAMETER_WINDOW_HPP
