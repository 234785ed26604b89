// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_NN_OPTIONS_HPP
#define CAUSEWAY_NN_OPTIONS_HPP

// What all model families share in their options, and the checks that turn a shape that cannot work into an error that
// says what would.

#include <causeway/config/config.hpp>
#include <causeway/core/error.hpp>
#include <causeway/core/result.hpp>
#include <causeway/kernels/bf16_kernels.hpp>
#include <causeway/tensor/dtype.hpp>

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace nn {

/// What products are computed in. Parameters, gradients, sums and the residual stream are f32 in both. A program compiles
/// the kernels for bf16 only if it names `precision::bf16` (kernels::use_bf16), which becomes a precision where one is
/// asked for: write `precision p = precision::bf16`, since `auto` gives only the name.
class precision {
 public:
  struct bf16_name {
    explicit constexpr bf16_name() = default;
  };
  static const precision f32;
  static constexpr bf16_name bf16{};  ///< operands of products and the activations between them in bf16, f32 sums

  constexpr precision() noexcept = default;
  template <std::same_as<bf16_name> Name>
  precision(Name /*asked*/) noexcept : type_{dtype::bf16} {
    kernels::use_bf16();
  }

  /// Of the operands of products.
  [[nodiscard]] constexpr dtype type() const noexcept { return type_; }
  friend constexpr bool operator==(precision, precision) = default;

 private:
  dtype type_ = dtype::f32;
};

inline constexpr precision precision::f32{};

constexpr std::string_view to_string(precision p) noexcept { return causeway::to_string(p.type()); }

namespace detail {

/// A size option: its name, what was given, and the most that is allowed.
struct named_size {
  std::string_view name;
  std::int64_t value = 0;
  std::int64_t limit = 0;
};

/// Every size must lie in [1, limit].
CAUSEWAY_DECL result<void> check_sizes(std::string_view where, std::initializer_list<named_size> sizes);

/// "1, 2, 4, 8": the divisors of `n`, ascending; in the middle of a long list, those around `near`.
CAUSEWAY_DECL std::string divisors_near(std::int64_t n, std::int64_t near);

/// `part` must divide `whole`.
CAUSEWAY_DECL result<void> check_divides(std::string_view where, std::string_view part_name, std::int64_t part,
                                         std::string_view whole_name, std::int64_t whole);

CAUSEWAY_DECL result<void> check_fraction(std::string_view where, std::string_view name, float value);

CAUSEWAY_DECL result<void> check_positive(std::string_view where, std::string_view name, float value);

/// Parameter counts are computed in double first, so that no product of sizes can overflow.
CAUSEWAY_DECL result<void> check_count(std::string_view where, double parameters);

}  // namespace detail

}}}  // namespace causeway::CAUSEWAY_ABI::nn

#ifndef CAUSEWAY_COMPILED
#include <causeway/nn/impl/options.ipp>
#endif

#endif  // CAUSEWAY_NN_OPTIONS_HPP
