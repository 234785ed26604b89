// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_NN_ADAPTERS_HPP
#define CAUSEWAY_NN_ADAPTERS_HPP

// What may be tuned of a block whose own parameters are frozen: low-rank adapters beside its linear maps (LoRA: Hu et al.,
// 2021), and prompts. Which maps have an adapter, how many values they are, and where in a row of memory each matrix lies.

#include <causeway/autograd/variable.hpp>
#include <causeway/config/config.hpp>
#include <causeway/core/error.hpp>
#include <causeway/core/result.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace nn {

/// Linear maps of a block. A family has some of them; several may lie in one matrix.
enum class linear_map : std::uint8_t { query, key, value, output, gate, up, down };
inline constexpr std::size_t linear_maps = 7;
inline constexpr std::array<std::string_view, linear_maps> linear_map_names{"query", "key", "value", "output",
                                                                            "gate",  "up",  "down"};

struct map_size {
  std::int64_t inputs = 0;  ///< 0: the family has no such map
  std::int64_t outputs = 0;
};
/// By linear_map.
using map_sizes = std::array<map_size, linear_maps>;

/// Which adapters, and how they begin: A normal with variance 1/inputs, B zero. The paper adapts queries and values.
struct adapter_options {
  std::int64_t rank = 8;
  float alpha = 16.0F;  ///< what is added is alpha/rank · B·A·x
  bool query = true;
  bool key = false;
  bool value = true;
  bool output = false;        ///< of the attention
  bool feed_forward = false;  ///< all maps of the feed-forward part
};

/// What adapters a block has; rank 0: none. Values of a block lie map after map, of each A [rank, inputs], B
/// [outputs, rank].
struct adapter_shape {
  static constexpr std::uint32_t most_rank = 1U << 16U;

  std::uint32_t rank = 0;
  std::uint8_t maps = 0;  ///< bit i: linear_map i

  [[nodiscard]] bool has(std::size_t map) const noexcept { return rank > 0 && ((maps >> map) & 1U) != 0; }
  [[nodiscard]] bool has(linear_map map) const noexcept { return has(static_cast<std::size_t>(map)); }

  /// Whether the sizes have all of its maps.
  CAUSEWAY_DECL [[nodiscard]] bool fits(const map_sizes& sizes) const noexcept;

  /// Values of a block. Precondition: it fits.
  CAUSEWAY_DECL [[nodiscard]] std::int64_t values(const map_sizes& sizes) const noexcept;

  friend bool operator==(const adapter_shape&, const adapter_shape&) = default;
};

/// What is tuned of every block: its values are those of its prompts, [prompts, width], then of its adapters.
struct block_tuning {
  std::int64_t prompts = 0;  ///< rows at the front of each sequence to which the block's prompts are added before it
  adapter_shape adapters{};  ///< beside its linear maps

  /// Values of a block. Precondition: the adapters fit.
  CAUSEWAY_DECL [[nodiscard]] std::int64_t values(std::int64_t width, const map_sizes& maps) const noexcept;
  /// What a request's limit counts them as: rows of `width`.
  CAUSEWAY_DECL [[nodiscard]] std::int64_t rows(std::int64_t width, const map_sizes& maps) const noexcept;
};

/// errc::invalid_argument where a rank is none or makes no map smaller, no map is chosen, or alpha is no positive number.
CAUSEWAY_DECL [[nodiscard]] result<adapter_shape> shape_of(const adapter_options& o, const map_sizes& sizes);

/// A block's adapters as its maps take them; none where `down` is empty. A factor is part of `up`.
struct block_adapters {
  struct pair {
    autograd::parameter down;  ///< A
    autograd::parameter up;    ///< B
  };
  std::array<pair, linear_maps> of{};

  [[nodiscard]] const pair& operator[](linear_map map) const noexcept { return of[static_cast<std::size_t>(map)]; }
};

/// Of values and gradients that lie as adapter_shape says; null gradients: nobody wants them. The memory must outlive it.
CAUSEWAY_DECL [[nodiscard]] block_adapters adapters_at(const adapter_shape& shape, const map_sizes& sizes,
                                                       const float* values, float* gradients) noexcept;

}}}  // namespace causeway::CAUSEWAY_ABI::nn

#ifndef CAUSEWAY_COMPILED
#include <causeway/nn/impl/adapters.ipp>
#endif

#endif  // CAUSEWAY_NN_ADAPTERS_HPP
