// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PARALLEL_ASYNC_PIPELINE_STASH_HPP
#define CAUSEWAY_PARALLEL_ASYNC_PIPELINE_STASH_HPP

// Weight stashing (PipeDream: Narayanan et al., SOSP 2019): parameters as they were in earlier steps, kept until the last
// micro-batch that went forward with them has come back.

#include <causeway/config/config.hpp>
#include <causeway/core/error.hpp>
#include <causeway/core/thread_pool.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <utility>
#include <vector>

namespace causeway::inline CAUSEWAY_ABI::parallel {

/// Versions of a flat parameter buffer, by step. Memory: 4 bytes a parameter for each. One thread.
class weight_stash {
 public:
  /// Keeps `values` as those of `step`, which is later than all that are kept. Moves 8 bytes a parameter.
  void keep(thread_pool& pool, std::uint64_t step, std::span<const float> values) {
    CAUSEWAY_EXPECT(versions_.empty() || versions_.back().step < step);
    version v{step, {}};
    if (!spare_.empty()) {
      v.values = std::move(spare_.back());
      spare_.pop_back();
    }
    v.values.resize(values.size());
    pool.for_range(static_cast<std::int64_t>(values.size()), share, [&](index_range part) {
      std::copy(values.begin() + part.begin, values.begin() + part.end, v.values.begin() + part.begin);
    });
    versions_.push_back(std::move(v));
  }

  /// Exchanges `values` with those of `step`; doing so again undoes it. False, and nothing done, if none are kept of it.
  /// Moves 16 bytes a parameter.
  bool swap(thread_pool& pool, std::uint64_t step, std::span<float> values) {
    const auto v = std::find_if(versions_.begin(), versions_.end(), [&](const version& w) { return w.step == step; });
    if (v == versions_.end()) return false;
    CAUSEWAY_EXPECT(v->values.size() == values.size());
    pool.for_range(static_cast<std::int64_t>(values.size()), share, [&](index_range part) {
      std::swap_ranges(values.begin() + part.begin, values.begin() + part.end, v->values.begin() + part.begin);
    });
    return true;
  }

  /// Versions of steps before `step` are not needed any more. The memory of one is kept for the next.
  void forget_before(std::uint64_t step) {
    while (!versions_.empty() && versions_.front().step < step) {
      if (spare_.empty()) spare_.push_back(std::move(versions_.front().values));
      versions_.pop_front();
    }
  }

  [[nodiscard]] std::size_t size() const noexcept { return versions_.size(); }

 private:
  struct version {
    std::uint64_t step = 0;
    std::vector<float> values;
  };
  static constexpr std::int64_t share = 1 << 14;

  std::deque<version> versions_;
  std::vector<std::vector<float>> spare_;
};

}  // namespace causeway::inline CAUSEWAY_ABI::parallel

#endif  // CAUSEWAY_PARALLEL_ASYNC_PIPELINE_STASH_HPP
