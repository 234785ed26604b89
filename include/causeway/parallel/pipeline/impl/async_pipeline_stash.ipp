// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PARALLEL_PIPELINE_IMPL_ASYNC_PIPELINE_STASH_IPP
#define CAUSEWAY_PARALLEL_PIPELINE_IMPL_ASYNC_PIPELINE_STASH_IPP

#include <causeway/parallel/pipeline/async_pipeline_stash.hpp>

#include <algorithm>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace parallel {

CAUSEWAY_DECL void weight_stash::keep(thread_pool& pool, std::uint64_t step, std::span<const float> values) {
  CAUSEWAY_EXPECT(versions_.empty() || versions_.back().step < step);
  version v{step, {}};
  if (!spare_.empty()) {
    v.values = std::move(spare_.back());
    spare_.pop_back();
  }
  v.values.resize(values.size());
  pool.for_range(static_cast<std::int64_t>(values.size()), share, [&](index_range part) {
    std::copy(values.begin() + part.begin, values.begin() + part.end, v.values.begin() + part.begin);
  });
  versions_.push_back(std::move(v));
}

CAUSEWAY_DECL bool weight_stash::swap(thread_pool& pool, std::uint64_t step, std::span<float> values) {
  const auto v = std::find_if(versions_.begin(), versions_.end(), [&](const version& w) { return w.step == step; });
  if (v == versions_.end()) return false;
  CAUSEWAY_EXPECT(v->values.size() == values.size());
  pool.for_range(static_cast<std::int64_t>(values.size()), share, [&](index_range part) {
    std::swap_ranges(values.begin() + part.begin, values.begin() + part.end, v->values.begin() + part.begin);
  });
  return true;
}

CAUSEWAY_DECL void weight_stash::forget_before(std::uint64_t step) {
  while (!versions_.empty() && versions_.front().step < step) {
    if (spare_.empty()) spare_.push_back(std::move(versions_.front().values));
    versions_.pop_front();
  }
}

}}}  // namespace causeway::CAUSEWAY_ABI::parallel

#endif  // CAUSEWAY_PARALLEL_PIPELINE_IMPL_ASYNC_PIPELINE_STASH_IPP
