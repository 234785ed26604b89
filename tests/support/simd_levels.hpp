// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TESTS_SUPPORT_SIMD_LEVELS_HPP
#define CAUSEWAY_TESTS_SUPPORT_SIMD_LEVELS_HPP

#include <causeway/kernels/cpu_features.hpp>

#include <vector>

namespace support {

/// Those of this machine, the portable one first.
inline std::vector<causeway::kernels::simd_level> simd_levels() {
  std::vector<causeway::kernels::simd_level> here;
  for (const auto level : causeway::kernels::simd_levels) {
    if (level <= causeway::kernels::detect_simd_level()) here.push_back(level);
  }
  return here;
}

}  // namespace support

#endif  // CAUSEWAY_TESTS_SUPPORT_SIMD_LEVELS_HPP
