// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PARALLEL_PIPELINE_IMPL_EMBEDDING_BASE_IPP
#define CAUSEWAY_PARALLEL_PIPELINE_IMPL_EMBEDDING_BASE_IPP

// Bodies of parallel/pipeline/embedding_base.hpp.

#include <causeway/parallel/pipeline/embedding_base.hpp>

#include <causeway/kernels/elementwise.hpp>
#include <causeway/kernels/reduce.hpp>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace parallel {

CAUSEWAY_DECL result<void> embedding_base::rows(thread_pool& pool, const batch& b, std::span<float> out) const {
  CAUSEWAY_EXPECT(!empty() && static_cast<std::int64_t>(out.size()) == b.tokens() * width_);
  CAUSEWAY_TRY(nn::check_inputs(limits_, {b.inputs, {}, b.sequences}));
  kernels::embedding_forward(pool, b.inputs.data(), tokens_.data(), positions_.empty() ? nullptr : positions_.data(),
                             out.data(), b.sequences, b.tokens() / b.sequences, width_);
  return {};
}

// Rounding moves a table out of the subspace a little in every step; another seed's table is as far from it as it is large.
CAUSEWAY_DECL result<void> embedding_base::check_alike(thread_pool& pool, std::span<const float> began,
                                                       std::span<float> now, std::string_view codec) {
  const auto count = static_cast<std::int64_t>(began.size());
  kernels::axpy(pool, now.data(), -1.0F, began.data(), count);
  const double apart = kernels::sum_of_squares(pool, now.data(), count);
  if (apart <= 0.01 * kernels::sum_of_squares(pool, began.data(), count)) return {};
  return fail(errc::invalid_argument, std::string{codec},
              "the embedding did not begin as the model's seed says, from which peers that come and go make what they know "
              "of it; call model.initialize() with the run's seed on every peer before anything is loaded, or use "
              "parallel::pipeline for tables from elsewhere");
}

}}}  // namespace causeway::CAUSEWAY_ABI::parallel

#endif  // CAUSEWAY_PARALLEL_PIPELINE_IMPL_EMBEDDING_BASE_IPP
