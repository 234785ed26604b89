// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TESTS_COMPILE_FAIL_ROUNDS_HPP
#define CAUSEWAY_TESTS_COMPILE_FAIL_ROUNDS_HPP

// What the files beside this one put together wrongly.

#include <causeway/axis/growing.hpp>
#include <causeway/comm/rounds.hpp>
#include <causeway/compress/none.hpp>
#include <causeway/compress/sparse.hpp>
#include <causeway/compress/top_k.hpp>
#include <causeway/compress/transform.hpp>
#include <causeway/optim/sgd.hpp>

namespace axis = causeway::axis;

/// A topology like another one, with one constant changed.
struct without_parity : axis::gather_mean<> {
  static constexpr causeway::collective::exchange_traits traits{.bit_parity = false, .residual = true};
};
struct without_residual : axis::gather_mean<> {
  static constexpr causeway::collective::exchange_traits traits{.bit_parity = true, .residual = false};
};
struct sums_sparse_rows : axis::gather_mean<> {
  static constexpr causeway::collective::exchange_traits traits{.bit_parity = true, .own_support = false, .residual = true};
  using codec_type =
      causeway::compress::sparse<causeway::compress::no_transform, causeway::compress::top_k, causeway::compress::none>;
};
struct sparse_without_counts : axis::gather_mean<> {
  static constexpr causeway::collective::exchange_traits traits{.bit_parity = true, .own_support = true, .counts = false};
  using codec_type =
      causeway::compress::sparse<causeway::compress::no_transform, causeway::compress::top_k, causeway::compress::none>;
};

#endif  // CAUSEWAY_TESTS_COMPILE_FAIL_ROUNDS_HPP
