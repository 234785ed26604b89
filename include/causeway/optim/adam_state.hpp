// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_OPTIM_ADAM_STATE_HPP
#define CAUSEWAY_OPTIM_ADAM_STATE_HPP

// What Adam and its kin keep of each parameter; kernels/adamw_kernel.hpp has how a gradient moves it.

#include <causeway/config/config.hpp>
#include <causeway/optim/optimizer.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace optim { namespace detail {

/// Both moments, in the layout of the parameters, and the steps that were made. 8 bytes a parameter.
template <class Clock>
struct adam_state {
  state_buffer first;
  state_buffer second;
  Clock clock;

  void reset(std::int64_t length) {
    first = state_buffer{length};
    second = state_buffer{length};
    clock = {};
  }

  [[nodiscard]] std::array<std::span<float>, 2> moments() noexcept {
    const auto length = static_cast<std::size_t>(first.size());
    return {std::span{first.data(), length}, std::span{second.data(), length}};
  }

  template <class Archive>
  void serialize(Archive& ar) {
    ar(first, second, clock);
  }
};

}}}}  // namespace causeway::CAUSEWAY_ABI::optim::detail

#endif  // CAUSEWAY_OPTIM_ADAM_STATE_HPP
