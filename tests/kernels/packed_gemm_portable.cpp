// SPDX-License-Identifier: Apache-2.0
#include <causeway/kernels/packed_gemm_portable.hpp>

#include "support/catch.hpp"
#include "support/tile_cases.hpp"

using namespace causeway;
using namespace causeway::kernels;

TEST_CASE("packed gemm portable: packed panels multiply to the right sums at every height", "[kernels][fast]") {
  tests::tiles::check_all<kernels::detail::portable_tile, float>();
  tests::tiles::check_all<kernels::detail::portable_tile, bf16>();
}
