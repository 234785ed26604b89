// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_AXIS_OWN_SUM_MEAN_HPP
#define CAUSEWAY_AXIS_OWN_SUM_MEAN_HPP

// A mean that the transport adds up by itself, where it can. Apart from exchange.hpp, so that only who asks for it compiles
// it.

#include <causeway/axis/exchange.hpp>
#include <causeway/collective/own_sum_mean.hpp>
#include <causeway/collective/split_mean.hpp>
#include <causeway/compress/message.hpp>

#include <cstddef>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace axis {

/// By the transport's own sums of f32, such as MPI's (collective/own_sum_mean.hpp); by messages, as split_mean<>, where it
/// has none.
struct own_sum_mean {
  using type = collective::own_sum_mean<collective::split_mean<compress::as_message<compress::none>>>;
  static constexpr part decides = part::exchange;
  static constexpr collective::exchange_traits traits = type::traits;

  [[nodiscard]] type make(std::size_t = 0) const { return type{}; }
};

static_assert(ExchangeRecipe<own_sum_mean>);

}}}  // namespace causeway::CAUSEWAY_ABI::axis

#endif  // CAUSEWAY_AXIS_OWN_SUM_MEAN_HPP
