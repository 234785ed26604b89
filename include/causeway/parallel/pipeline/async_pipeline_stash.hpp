// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PARALLEL_PIPELINE_ASYNC_PIPELINE_STASH_HPP
#define CAUSEWAY_PARALLEL_PIPELINE_ASYNC_PIPELINE_STASH_HPP

// Weight stashing (PipeDream: Narayanan et al., SOSP 2019): parameters as they were in earlier steps, kept until the last
// micro-batch that went forward with them has come back.

#include <causeway/config/config.hpp>
#include <causeway/core/thread_pool.hpp>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace parallel {

/// Versions of a flat parameter buffer, by step. Memory: 4 bytes a parameter for each. One thread.
class weight_stash {
 public:
  /// Keeps `values` as those of `step`, which is later than all that are kept. Moves 8 bytes a parameter.
  CAUSEWAY_DECL void keep(thread_pool& pool, std::uint64_t step, std::span<const float> values);

  /// Exchanges `values` with those of `step`; doing so again undoes it. False, and nothing done, if none are kept of it.
  /// Moves 16 bytes a parameter.
  CAUSEWAY_DECL bool swap(thread_pool& pool, std::uint64_t step, std::span<float> values);

  /// Versions of steps before `step` are not needed any more. The memory of one is kept for the next.
  CAUSEWAY_DECL void forget_before(std::uint64_t step);

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

}}}  // namespace causeway::CAUSEWAY_ABI::parallel

#ifndef CAUSEWAY_COMPILED
#include <causeway/parallel/pipeline/impl/async_pipeline_stash.ipp>
#endif

#endif  // CAUSEWAY_PARALLEL_PIPELINE_ASYNC_PIPELINE_STASH_HPP
