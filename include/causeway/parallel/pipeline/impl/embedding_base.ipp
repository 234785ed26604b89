// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PARALLEL_PIPELINE_IMPL_EMBEDDING_BASE_IPP
#define CAUSEWAY_PARALLEL_PIPELINE_IMPL_EMBEDDING_BASE_IPP

// Bodies of parallel/pipeline/embedding_base.hpp.

#include <causeway/parallel/pipeline/embedding_base.hpp>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace parallel {

CAUSEWAY_DECL result<void> embedding_base::rows(thread_pool& pool, const batch& b, std::span<float> out) const {
  CAUSEWAY_EXPECT(!empty() && static_cast<std::int64_t>(out.size()) == b.tokens() * width_);
  CAUSEWAY_TRY(nn::check_inputs(limits_, {b.inputs, {}, b.sequences}));
  kernels::embedding_forward(pool, b.inputs.data(), tokens_.data(), positions_.empty() ? nullptr : positions_.data(),
                             out.data(), b.sequences, b.tokens() / b.sequences, width_);
  return {};
}

}}}  // namespace causeway::CAUSEWAY_ABI::parallel

#endif  // CAUSEWAY_PARALLEL_PIPELINE_IMPL_EMBEDDING_BASE_IPP
