// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_NN_IMPL_ADAPTERS_IPP
#define CAUSEWAY_NN_IMPL_ADAPTERS_IPP

#include <causeway/nn/adapters.hpp>

#include <algorithm>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace nn {

CAUSEWAY_DECL bool adapter_shape::fits(const map_sizes& sizes) const noexcept {
  if (rank == 0) return maps == 0;
  if (rank > most_rank || maps == 0 || maps >> linear_maps != 0) return false;
  for (std::size_t i = 0; i < linear_maps; ++i) {
    if (has(i) && sizes[i].inputs == 0) return false;
  }
  return true;
}

CAUSEWAY_DECL std::int64_t adapter_shape::values(const map_sizes& sizes) const noexcept {
  std::int64_t sides = 0;
  for (std::size_t i = 0; i < linear_maps; ++i) sides += has(i) ? sizes[i].inputs + sizes[i].outputs : 0;
  return sides * rank;
}

CAUSEWAY_DECL std::int64_t block_tuning::values(std::int64_t width, const map_sizes& maps) const noexcept {
  return prompts * width + adapters.values(maps);
}

CAUSEWAY_DECL std::int64_t block_tuning::rows(std::int64_t width, const map_sizes& maps) const noexcept {
  return prompts + (adapters.values(maps) + width - 1) / width;
}

CAUSEWAY_DECL result<adapter_shape> shape_of(const adapter_options& o, const map_sizes& sizes) {
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

CAUSEWAY_DECL block_adapters adapters_at(const adapter_shape& shape, const map_sizes& sizes, const float* values,
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

}}}  // namespace causeway::CAUSEWAY_ABI::nn

#endif  // CAUSEWAY_NN_IMPL_ADAPTERS_IPP
