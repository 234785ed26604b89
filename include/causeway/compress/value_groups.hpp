// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_COMPRESS_VALUE_GROUPS_HPP
#define CAUSEWAY_COMPRESS_VALUE_GROUPS_HPP

// Groups of 16 neighbouring values, which travel together or not at all: a group is a cache line, so that whoever chooses,
// adds up or applies them reads memory in order, and a place is named once for 16 values (StellaTrain, Lim et al. 2024,
// section 3.2). Who chooses them: compress/group_map.hpp.

#include <causeway/compress/codec.hpp>
#include <causeway/compress/message.hpp>
#include <causeway/core/result.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace compress {

/// As message_context, with the groups that this peer sends.
struct group_context : message_context {
  std::span<const std::uint32_t> chosen{};  ///< ascending
  std::size_t most = 0;                     ///< no peer sends more. Equal on all
};

/// Message codec over group_context: which groups, as the smallest of packed indices, bitmask and Elias-Fano, then their
/// values in f32. Nothing is chosen here: the same groups of two rows are the same places.
class value_groups {
 public:
  static constexpr std::string_view name = "value_groups";
  static constexpr codec_traits traits{.lossy = true, .sparse = true};

  CAUSEWAY_DECL [[nodiscard]] std::size_t most_bytes(const group_context& ctx, std::size_t n) const;
  CAUSEWAY_DECL std::size_t encode(const group_context& ctx, std::span<const float> values,
                                   std::span<std::byte> room) const;
  CAUSEWAY_DECL result<void> decode_add(const group_context& ctx, std::span<const std::byte> bytes, std::span<float> sum,
                                        float weight, std::span<float> counts) const;
};

}}}  // namespace causeway::CAUSEWAY_ABI::compress

#ifndef CAUSEWAY_COMPILED
#include <causeway/compress/impl/value_groups.ipp>
#endif

#endif  // CAUSEWAY_COMPRESS_VALUE_GROUPS_HPP
