// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_NN_ADAPTERS_HPP
#define CAUSEWAY_NN_ADAPTERS_HPP

// What may be tuned of a block whose own parameters are frozen: low-rank adapters beside its linear maps (LoRA: Hu et al.,
// 2021), and prompts. Which maps have an adapter, how many values they are, and where in a row of memory each matrix lies.

#include <causeway/autograd/variable.hpp>
#include <causeway/config/config.hpp>
#include <causeway/core/error.hpp>
#include <causeway/core/result.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace causeway::inline CAUSEWAY_ABI::nn {

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
  [[nodiscard]] bool fits(const map_sizes& sizes) const noexcept {
    if (rank == 0) return maps == 0;
    if (rank > most_rank || maps == 0 || maps >> linear_maps != 0) return false;
    for (std::size_t i = 0; i < linear_maps; ++i) {
      if (has(i) && sizes[i].inputs == 0) return false;
    }
    return true;
  }

  /// Values of a block. Precondition: it fits.
  [[nodiscard]] std::int64_t values(const map_sizes& sizes) const noexcept {
    std::int64_t sides = 0;
    for (std::size_t i = 0; i < linear_maps; ++i) sides += has(i) ? sizes[i].inputs + sizes[i].outputs : 0;
    return sides * rank;
  }

  friend bool operator==(const adapter_shape&, const adapter_shape&) = default;
};

/// What is tuned of every block: its values are those of its prompts, [prompts, width], then of its adapters.
struct block_tuning {
  std::int64_t prompts = 0;  ///< rows at the front of each sequence to which the block's prompts are added before it
  adapter_shape adapters{};  ///< beside its linear maps

  /// Values of a block. Precondition: the adapters fit.
  [[nodiscard]] std::int64_t values(std::int64_t width, const map_sizes& maps) const noexcept {
    return prompts * width + adapters.values(maps);
  }
  /// What a request's limit counts them as: rows of `width`.
  [[nodiscard]] std::int64_t rows(std::int64_t width, const map_sizes& maps) const noexcept {
    return prompts + (adapters.values(maps) + width - 1) / width;
  }
};

/// errc::invalid_argument where a rank is none or makes no map smaller, no map is chosen, or alpha is no positive number.
[[nodiscard]] inline result<adapter_shape> shape_of(const adapter_options& o, const map_sizes& sizes) {
  const std::array<bool, linear_maps> chosen{o.query,        o.key,          o.value,       o.output,
                                             o.feed_forward, o.feed_forward, o.feed_forward};
  std::int64_t least = 0;
  adapter_shape shape;
  for (std::size_t i = 0; i < linear_maps; ++i) {
    if (!chosen[i] || sizes[i].inputs == 0) continue;
    shape.maps = static_cast<std::uint8_t>(shape.maps | (1U << i));
    const std::int64_t side = std::min(sizes[i].inputs, sizes[i].outputs);
    least = least == 0 ? side : std::min(least, side);
  }
  if (least == 0)
    return fail(errc::invalid_argument, "adapters", "no linear map is chosen; the usual ones are query and value");
  least = std::min<std::int64_t>(least, adapter_shape::most_rank);
  if (o.rank < 1 || o.rank > least) {
    return fail(errc::invalid_argument, "adapters",
                "rank " + std::to_string(o.rank) + "; it must lie between 1 and " + std::to_string(least) +
                    ", the smallest side of the maps");
  }
  if (!(o.alpha > 0.0F && o.alpha < 3.0e38F)) {
    return fail(errc::invalid_argument, "adapters",
                "alpha is " + std::to_string(o.alpha) + "; it must be positive and finite");
  }
  shape.rank = static_cast<std::uint32_t>(o.rank);
  return shape;
}

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
[[nodiscard]] inline block_adapters adapters_at(const adapter_shape& shape, const map_sizes& sizes, const float* values,
                                                float* gradients) noexcept {
  const auto next = [&](std::int64_t rows, std::int64_t columns) {
    const autograd::parameter p{values, nullptr, gradients, rows, columns};
    values += rows * columns;
    if (gradients != nullptr) gradients += rows * columns;
    return p;
  };
  block_adapters all;
  for (std::size_t i = 0; i < linear_maps; ++i) {
    if (!shape.has(i)) continue;
    all.of[i].down = next(shape.rank, sizes[i].inputs);
    all.of[i].up = next(sizes[i].outputs, shape.rank);
  }
  return all;
}

}  // namespace causeway::inline CAUSEWAY_ABI::nn

#endif  // CAUSEWAY_NN_ADAPTERS_HPP
