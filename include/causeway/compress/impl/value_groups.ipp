// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_COMPRESS_IMPL_VALUE_GROUPS_IPP
#define CAUSEWAY_COMPRESS_IMPL_VALUE_GROUPS_IPP

#include <causeway/compress/value_groups.hpp>

#include <causeway/compress/group_map.hpp>
#include <causeway/compress/threshold.hpp>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace compress {

CAUSEWAY_DECL std::size_t value_groups::most_bytes(const group_context& ctx, std::size_t n) const {
  const std::size_t groups = group_map{ctx.matrices, n}.size();
  return sizeof(detail::set_count) + bytes_of_bits(groups) +  // no set is longer than a bitmask
         std::min(ctx.most, groups) * group_map::length * sizeof(float);
}

CAUSEWAY_DECL std::size_t value_groups::encode(const group_context& ctx, std::span<const float> values,
                                               std::span<std::byte> room) const {
  CAUSEWAY_EXPECT(ctx.chosen.size() <= ctx.most);
  detail::expect_row_size(values.size());
  const group_map map{ctx.matrices, values.size()};
  std::size_t used = detail::write_set(ctx.chosen, map.size(), room);
  for (const index_range r : map.places(ctx.chosen)) {
    const std::size_t bytes = static_cast<std::size_t>(r.size()) * sizeof(float);
    std::memcpy(room.data() + used, values.data() + r.begin, bytes);
    used += bytes;
  }
  return used;
}

CAUSEWAY_DECL result<void> value_groups::decode_add(const group_context& ctx, std::span<const std::byte> bytes,
                                                    std::span<float> sum, float weight, std::span<float> counts) const {
  CAUSEWAY_EXPECT(counts.empty() || counts.size() == sum.size());
  const group_map map{ctx.matrices, sum.size()};
  std::vector<std::uint32_t> groups;
  CAUSEWAY_ASSIGN(const std::size_t used, detail::read_set(name, bytes, map.size(), groups));
  const auto places = map.places(groups);
  std::size_t values = 0;
  for (const index_range r : places) values += static_cast<std::size_t>(r.size());
  if (bytes.size() != used + values * sizeof(float)) {
    return detail::wrong_length(name, bytes.size(), used + values * sizeof(float));
  }
  std::vector<float> came(values);
  if (values > 0) std::memcpy(came.data(), bytes.data() + used, values * sizeof(float));
  if (!std::all_of(came.begin(), came.end(), [](float x) { return std::isfinite(x); })) {
    return fail(errc::non_finite, std::string{name}, "values that are not finite");
  }
  auto from = came.begin();
  for (const index_range r : places) {
    for (auto i = static_cast<std::size_t>(r.begin); i < static_cast<std::size_t>(r.end); ++i) {
      sum[i] += weight * *from++;
      if (!counts.empty()) counts[i] += weight;
    }
  }
  return {};
}

}}}  // namespace causeway::CAUSEWAY_ABI::compress

#endif  // CAUSEWAY_COMPRESS_IMPL_VALUE_GROUPS_IPP
