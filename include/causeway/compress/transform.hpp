// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_COMPRESS_TRANSFORM_HPP
#define CAUSEWAY_COMPRESS_TRANSFORM_HPP

// A linear change of basis before values are chosen and coded, so that few coefficients carry most of a row: what a message
// says is then about coefficients, and so is a sum of messages.

#include <causeway/compress/message.hpp>
#include <causeway/core/concepts.hpp>

#include <concepts>
#include <span>
#include <string_view>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace compress {

/// Requirements: linear and orthonormal, n values to n coefficients.
///
/// - `forward(ctx, values, coefficients)`: the two must not overlap.
/// - `inverse(ctx, row)`: coefficients to values in place.
/// - `identity`: both do nothing, and are not called.
template <class T>
concept Transform = Copyable<T> &&
    requires(const T& t, const message_context& ctx, std::span<const float> values, std::span<float> row) {
  { T::name } -> ConvertibleTo<std::string_view>;
  {bool{T::identity}};
  { t.forward(ctx, values, row) } -> std::same_as<void>;
  { t.inverse(ctx, row) } -> std::same_as<void>;
};

/// Transform: none.
class no_transform {
 public:
  static constexpr std::string_view name = "no_transform";
  static constexpr bool identity = true;

  static void forward(const message_context&, std::span<const float>, std::span<float>) {}
  static void inverse(const message_context&, std::span<float>) {}
};
static_assert(Transform<no_transform>);

}}}  // namespace causeway::CAUSEWAY_ABI::compress

#endif  // CAUSEWAY_COMPRESS_TRANSFORM_HPP
