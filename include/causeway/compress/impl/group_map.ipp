// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_COMPRESS_IMPL_GROUP_MAP_IPP
#define CAUSEWAY_COMPRESS_IMPL_GROUP_MAP_IPP

#include <causeway/compress/group_map.hpp>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace compress {

CAUSEWAY_DECL group_map::group_map(std::span<const matrix_range> tensors, std::size_t n) {
  const matrix_range all{.offset = 0, .rows = 1, .columns = n};
  if (tensors.empty()) tensors = {&all, 1};
  for (const matrix_range& m : tensors) {
    const std::size_t values = m.rows * m.columns;
    const auto groups = static_cast<std::uint32_t>((values + length - 1) / length);
    if (groups == 0) continue;
    tensors_.push_back({m.offset, values, size_, groups});
    size_ += groups;
  }
}

CAUSEWAY_DECL std::vector<index_range> group_map::places(std::span<const std::uint32_t> groups) const {
  std::vector<index_range> all;
  all.reserve(groups.size());
  auto t = tensors_.begin();
  for (const std::uint32_t g : groups) {
    while (g >= t->first + t->groups) ++t;
    const std::size_t begin = (g - t->first) * length;
    const std::size_t end = std::min(begin + length, t->size);
    all.push_back({static_cast<std::int64_t>(t->offset + begin), static_cast<std::int64_t>(t->offset + end)});
  }
  return all;
}

CAUSEWAY_DECL std::vector<float> group_sums(thread_pool& pool, std::span<const float> tensor, std::uint32_t first,
                                            std::uint32_t last) {
  constexpr std::size_t length = group_map::length;
  std::vector<float> sums(last - first);
  pool.for_range(static_cast<std::int64_t>(sums.size()), 1024, [&](index_range r) {
    for (auto g = static_cast<std::size_t>(r.begin); g < static_cast<std::size_t>(r.end); ++g) {
      const auto values = tensor.subspan((first + g) * length);
      const std::size_t count = std::min(length, values.size());
      float sum = 0;
      for (std::size_t i = 0; i < count; ++i) sum += std::abs(values[i]);
      sum *= static_cast<float>(length) / static_cast<float>(count);
      sums[g] = std::isfinite(sum) ? sum : std::numeric_limits<float>::infinity();
    }
  });
  return sums;
}

CAUSEWAY_DECL void group_threshold::choose(std::span<const float> sums, std::size_t count, std::uint32_t first,
                                           std::vector<std::uint32_t>& chosen) {
  CAUSEWAY_EXPECT(count <= sums.size());
  if (count == 0) return;
  const group_threshold before = *this;
  const bool usable = std::all_of(sums.begin(), sums.end(), [](float sum) { return std::isfinite(sum); });
  if (!usable) value = std::numeric_limits<float>::infinity();
  if (!(value > 0)) {
    std::vector<float> sorted(sums.begin(), sums.end());
    const auto at = sorted.begin() + static_cast<std::ptrdiff_t>(std::min(count, sums.size() - 1));
    std::nth_element(sorted.begin(), at, sorted.end(), std::greater<>{});
    value = *at;
    rise = 0.01F * value;
  }
  const auto begin = static_cast<std::ptrdiff_t>(chosen.size());
  std::vector<std::uint32_t> rest;
  std::size_t found = 0;
  for (std::size_t g = 0; g < sums.size() && found < count; ++g) {
    const bool reaches = sums[g] >= value;
    found += reaches ? 1 : 0;
    (reaches ? chosen : rest).push_back(static_cast<std::uint32_t>(g));
  }
  value = found < count ? 0.99F * value : value + rise;
  if (!usable || !std::isfinite(value)) *this = before;
  const auto left = static_cast<std::ptrdiff_t>(count - found);  // if any, all were looked at
  std::partial_sort(rest.begin(), rest.begin() + left, rest.end(),
                    [&](std::uint32_t a, std::uint32_t b) { return sums[a] != sums[b] ? sums[a] > sums[b] : a < b; });
  chosen.insert(chosen.end(), rest.begin(), rest.begin() + left);
  std::sort(chosen.begin() + begin, chosen.end());
  std::for_each(chosen.begin() + begin, chosen.end(), [&](std::uint32_t& g) { g += first; });
}

}}}  // namespace causeway::CAUSEWAY_ABI::compress

#endif  // CAUSEWAY_COMPRESS_IMPL_GROUP_MAP_IPP
