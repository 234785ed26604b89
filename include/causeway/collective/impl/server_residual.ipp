// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_COLLECTIVE_IMPL_SERVER_RESIDUAL_IPP
#define CAUSEWAY_COLLECTIVE_IMPL_SERVER_RESIDUAL_IPP

#include <causeway/collective/server_residual.hpp>

#include <algorithm>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace collective {

CAUSEWAY_DECL void server_residual::begin(std::uint64_t step) {
  if (finished_ && step != step_) kept_ = std::exchange(next_, {});
  finished_ = false;
  step_ = step;
}

CAUSEWAY_DECL void server_residual::add_to(std::size_t begin, std::span<float> mean) const {
  const std::size_t first = std::max(begin, kept_.begin);
  const std::size_t last = std::min(begin + mean.size(), kept_.begin + kept_.values.size());
  for (std::size_t i = first; i < last; ++i) mean[i - begin] += kept_.values[i - kept_.begin];
}

CAUSEWAY_DECL std::span<float> server_residual::next(std::size_t begin, std::size_t size) {
  next_.begin = begin;
  next_.values.resize(size);
  return next_.values;
}

}}}  // namespace causeway::CAUSEWAY_ABI::collective

#endif  // CAUSEWAY_COLLECTIVE_IMPL_SERVER_RESIDUAL_IPP
