// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TESTS_SUPPORT_UNSENT_ROWS_HPP
#define CAUSEWAY_TESTS_SUPPORT_UNSENT_ROWS_HPP

// A policy that no preset is: what was not sent stays in the live parameters, and results are waited for some steps.

#include <causeway/comm/rounds.hpp>
#include <causeway/optim/sgd.hpp>
#include <causeway/presets/compressed.hpp>

#include <cstdint>

namespace support {

/// Of each row the `values` largest are sent.
inline auto unsent_rows(std::uint32_t values) {
  using namespace causeway;
  using codec = presets::detail::sparse_loco_codec;
  return comm::rounds{axis::every{3}, axis::implicit_residual{}, axis::replayed{2},
                      axis::gather_mean<codec>{codec{compress::no_transform{}, compress::top_k{{.k = values}}}},
                      axis::outer<optim::sgd>{0.5F}};
}

}  // namespace support

#endif  // CAUSEWAY_TESTS_SUPPORT_UNSENT_ROWS_HPP
