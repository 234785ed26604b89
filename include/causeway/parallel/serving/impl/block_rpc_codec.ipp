// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PARALLEL_SERVING_IMPL_BLOCK_RPC_CODEC_IPP
#define CAUSEWAY_PARALLEL_SERVING_IMPL_BLOCK_RPC_CODEC_IPP

// Bodies of parallel/serving/block_rpc_codec.hpp.

#include <causeway/parallel/serving/block_rpc_codec.hpp>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace parallel {

CAUSEWAY_DECL bool all_finite(thread_pool& pool, std::span<const float> values) {
  return values.empty() || kernels::all_finite(pool, values.data(), std::ssize(values));
}

}}}  // namespace causeway::CAUSEWAY_ABI::parallel

#endif  // CAUSEWAY_PARALLEL_SERVING_IMPL_BLOCK_RPC_CODEC_IPP
