// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_COMPRESS_GROUP_MAP_HPP
#define CAUSEWAY_COMPRESS_GROUP_MAP_HPP

// Where groups of neighbouring values lie in a row, and which of them a peer sends: in place of finding the largest ones
// each time it remembers a threshold for each tensor (StellaTrain, Lim et al. 2024, section 3.2; its authors' code,
// github.com/kaist-ina/stellatrain 6dccb2d, backend/src/compress/thresholdv16.cpp).

#include <causeway/compress/message.hpp>
#include <causeway/core/thread_pool.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace compress {

/// Where a row's groups lie: of each tensor its values by 16, the last group of which may have fewer. What lies between
/// tensors is in no group. Groups are numbered through the row.
class group_map {
 public:
  static constexpr std::size_t length = 16;

  struct tensor {
    std::size_t offset = 0, size = 0;     ///< of its values in the row
    std::uint32_t first = 0, groups = 0;  ///< its groups
  };

  /// Of a row of `n` values; without tensors it is all one.
  CAUSEWAY_DECL group_map(std::span<const matrix_range> tensors, std::size_t n);

  [[nodiscard]] std::span<const tensor> tensors() const noexcept { return tensors_; }
  [[nodiscard]] std::uint32_t size() const noexcept { return size_; }
  /// The values of these groups, which ascend.
  CAUSEWAY_DECL [[nodiscard]] std::vector<index_range> places(std::span<const std::uint32_t> groups) const;

 private:
  std::vector<tensor> tensors_;
  std::uint32_t size_ = 0;
};

/// Σ|x| of each group in [first, last) of a tensor; of one with fewer values as if it had 16 like them. One that is not
/// finite counts as infinite, so that it is sent and refused.
CAUSEWAY_DECL [[nodiscard]] std::vector<float> group_sums(thread_pool& pool, std::span<const float> tensor,
                                                          std::uint32_t first, std::uint32_t last);

/// A tensor's threshold, which remembers: the sum of the group that was just too many when it was first asked for. After
/// each choice it is 0.99 of itself where too few groups reached it, else it rises by a hundredth of its first value. One
/// of 0 is found anew. Groups that are not finite go first, and leave it as it was.
struct group_threshold {
  float value = 0;
  float rise = 0;

  /// Adds `first` + the numbers of `count` groups to `chosen`, ascending: in their order those that reach the threshold;
  /// where these are too few, the largest of the rest. `count` is no more than there are.
  CAUSEWAY_DECL void choose(std::span<const float> sums, std::size_t count, std::uint32_t first,
                            std::vector<std::uint32_t>& chosen);
};

}}}  // namespace causeway::CAUSEWAY_ABI::compress

#ifndef CAUSEWAY_COMPILED
#include <causeway/compress/impl/group_map.ipp>
#endif

#endif  // CAUSEWAY_COMPRESS_GROUP_MAP_HPP
