// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_KERNELS_ATTENTION_SHAPE_HPP
#define CAUSEWAY_KERNELS_ATTENTION_SHAPE_HPP

// How the operands of attention lie in memory, on the host and on a device alike.

#include <causeway/config/config.hpp>

#include <cstdint>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace kernels {

/// Sizes of one attention call. Token (b, t) is row b*T + t; head h starts h*head_size elements into the row; strides are
/// elements between rows, so q, k and v may be parts of one packed [batch*T, 3C] matrix. Query head h reads key and value
/// head h / (heads / kv_heads). `scale` (above 0) multiplies the scores, usually head_size^-1/2.
struct attention_shape {
  std::int64_t batch = 0;
  std::int64_t T = 0;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t head_size = 0;
  std::int64_t q_stride = 0;
  std::int64_t k_stride = 0;
  std::int64_t v_stride = 0;
  std::int64_t o_stride = 0;
  float scale = 1.0F;
};

inline void expect_valid(const attention_shape& s) {
  CAUSEWAY_EXPECT(s.batch >= 0 && s.T >= 0 && s.head_size > 0 && s.scale > 0.0F);
  CAUSEWAY_EXPECT(s.kv_heads > 0 && s.heads % s.kv_heads == 0);
  (void)s;
}

}}}  // namespace causeway::CAUSEWAY_ABI::kernels

#endif  // CAUSEWAY_KERNELS_ATTENTION_SHAPE_HPP
