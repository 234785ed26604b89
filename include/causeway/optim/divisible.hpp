// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_OPTIM_DIVISIBLE_HPP
#define CAUSEWAY_OPTIM_DIVISIBLE_HPP

// Optimizer state that can be taken apart by parameters, for peers whose part of the model changes during a run.

#include <causeway/core/concepts.hpp>
#include <causeway/optim/optimizer.hpp>
#include <causeway/tensor/parameters.hpp>

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace optim {

/// `moments()`: all state that belongs to single parameters, in the layout of the parameters. `resume(length, steps)`: as
/// after that many steps, with moments of zero.
template <class O>
concept Divisible = Optimizer<O> && requires(O& o) {
  { o.moments().size() } -> ConvertibleTo<std::size_t>;
  { o.moments()[0] } -> ConvertibleTo<std::span<float>>;
  { o.resume(std::int64_t{}, std::uint64_t{}) } -> std::same_as<void>;
};

/// State for `to`, flat buffers of `length` values: what `from` had of it stays, the rest is zero. Both are in memory at
/// once.
void divide(Divisible auto& inner, std::span<const parameter_segment> from, std::span<const parameter_segment> to,
            std::int64_t length, std::uint64_t steps) {
  std::vector<std::vector<float>> before;
  for (const std::span<float> m : inner.moments()) before.emplace_back(m.begin(), m.end());
  inner.resume(length, steps);
  for_common_pieces(from, to, [&](const parameter_segment& old, const parameter_segment& now) {
    for (std::size_t m = 0; m < before.size(); ++m) {
      std::copy_n(before[m].begin() + old.offset, old.size(), inner.moments()[m].begin() + now.offset);
    }
  });
}

}}}  // namespace causeway::CAUSEWAY_ABI::optim

#endif  // CAUSEWAY_OPTIM_DIVISIBLE_HPP
