// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_KERNELS_DEFAULT_GEMM_HPP
#define CAUSEWAY_KERNELS_DEFAULT_GEMM_HPP

// The matrix product that a backend uses when its user names none.

#include <causeway/config/config.hpp>
#include <causeway/kernels/packed_gemm.hpp>

namespace causeway::inline CAUSEWAY_ABI::kernels {

using default_gemm = packed_gemm;

}  // namespace causeway::inline CAUSEWAY_ABI::kernels

#endif  // CAUSEWAY_KERNELS_DEFAULT_GEMM_HPP
