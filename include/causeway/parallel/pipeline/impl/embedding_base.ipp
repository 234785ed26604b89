// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PARALLEL_PIPELINE_IMPL_EMBEDDING_BASE_IPP
#define CAUSEWAY_PARALLEL_PIPELINE_IMPL_EMBEDDING_BASE_IPP

#include <causeway/parallel/pipeline/embedding_base.hpp>

#include <causeway/kernels/reduce.hpp>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace parallel {

CAUSEWAY_DECL result<void> embedding_base::rows(thread_pool& pool, const batch& b, std::span<float> out) const {
  CAUSEWAY_EXPECT(!empty() && static_cast<std::int64_t>(out.size()) == b.tokens() * width_);
  CAUSEWAY_TRY(nn::check_inputs(limits_, {b.inputs, {}, b.sequences}));
  kernels::embedding_forward(pool, b.inputs.data(), tokens_.data(), positions_.empty() ? nullptr : positions_.data(),
                             out.data(), b.sequences, b.tokens() / b.sequences, width_);
  return {};
}

CAUSEWAY_DECL result<void> embedding_base::add_to(stage::crossing& c, thread_pool& pool, const batch& b,
                                                  std::vector<float>& room) const {
  if (empty() || c.way == stage::direction::backward) return {};
  room.resize(c.count());
  c.base = room;
  return rows(pool, b, room);
}

// What a table moved outside of the subspace. Rounding moves it a little in every step; another seed's table is as far
// away as it is large.
CAUSEWAY_DECL result<void> embedding_base::check_moved(thread_pool& pool, std::span<const float> began,
                                                       std::span<const float> outside, std::string_view codec) {
  const auto size = [&](std::span<const float> of) {
    return kernels::sum_of_squares(pool, of.data(), static_cast<std::int64_t>(of.size()));
  };
  if (size(outside) <= 1e-3 * size(began)) return {};
  return fail(errc::invalid_argument, std::string{codec},
              "the embedding did not begin as the model's seed says, from which peers that come and go make what they know "
              "of it; call model.initialize() with the run's seed on every peer before anything is loaded, or use "
              "parallel::pipeline for tables from elsewhere");
}

}}}  // namespace causeway::CAUSEWAY_ABI::parallel

#endif  // CAUSEWAY_PARALLEL_PIPELINE_IMPL_EMBEDDING_BASE_IPP
