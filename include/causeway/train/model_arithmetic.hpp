// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TRAIN_MODEL_ARITHMETIC_HPP
#define CAUSEWAY_TRAIN_MODEL_ARITHMETIC_HPP

// Arithmetic on parameters and gradients where a model has them: its backend's, where it has one that is known here, else
// the host's.

#include <causeway/core/result.hpp>
#include <causeway/kernels/backend.hpp>
#include <causeway/kernels/elementwise.hpp>
#include <causeway/kernels/row_hash.hpp>
#include <causeway/kernels/rows.hpp>
#include <causeway/optim/clip.hpp>
#include <causeway/tensor/buffer.hpp>
#include <causeway/train/model.hpp>

#include <cmath>
#include <cstdint>
#include <span>
#include <type_traits>
#include <utility>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace detail {

template <Model M>
using backend_of = std::remove_cvref_t<decltype(std::declval<M&>().backend())>;

/// The 2-norm.
template <Model M>
float norm_of(M& model, std::span<const float> row) {
  if constexpr (kernels::Backend<backend_of<M>>) {
    return static_cast<float>(std::sqrt(model.backend().sum_of_squares(row.data(), std::ssize(row))));
  } else {
    return optim::global_norm(model.backend().pool(), row);
  }
}

/// See kernels::RowArithmetic.
template <Model M>
auto rows_of(M& model) {
  if constexpr (requires { model.backend().rows(); }) {
    return model.backend().rows();
  } else {
    return kernels::host_rows{model.backend().pool()};
  }
}

/// Where the parameters lie, for rows that are to lie there too.
template <Model M>
memory_source memory_of(M& model) {
  if constexpr (kernels::Backend<backend_of<M>>) return model.backend().source();
  return {};
}

/// What a device failed with, if it did: that says more than what came of it.
template <Model M>
result<void> or_device_error(M& model, result<void> outcome) {
  if constexpr (kernels::Backend<backend_of<M>>) CAUSEWAY_TRY(model.backend().finish());
  return outcome;
}

template <Model M>
void set_to_zero(M& model, std::span<float> row) {
  if constexpr (kernels::Backend<backend_of<M>>) {
    model.backend().zero(row.data(), std::ssize(row));
  } else {
    kernels::zero(model.backend().pool(), row.data(), std::ssize(row));
  }
}

template <Model M>
std::uint64_t hash_of(M& model, std::span<const float> row) {
  if constexpr (requires { model.backend().hash(row); }) {
    return model.backend().hash(row);
  } else {
    return kernels::row_hash(model.backend().pool(), row);
  }
}

}}}  // namespace causeway::CAUSEWAY_ABI::detail

#endif  // CAUSEWAY_TRAIN_MODEL_ARITHMETIC_HPP
