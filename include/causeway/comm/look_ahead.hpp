// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_COMM_LOOK_AHEAD_HPP
#define CAUSEWAY_COMM_LOOK_AHEAD_HPP

// Gradients where a peer expects the parameters to be once the row that it sent last has been applied
// (axis::gradient_ahead).

#include <causeway/core/result.hpp>
#include <causeway/core/thread_pool.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace comm { namespace detail {

/// pass() at θ − η·sign(x), with x the input of each state that is under way and η the learning rate of the step before;
/// then θ is bit for bit as it was, whatever pass() gave. `before` is working memory, as long as the parameters: where
/// peers come and go, others are given θ from there meanwhile. The host does it.
template <class States, class F>
result<double> at_look_ahead(auto& ctx, const States& states, std::vector<float>& before, F&& pass) {
  const std::span<float> live = ctx.parameters();
  before.resize(live.size());
  CAUSEWAY_TRY(ctx.rows().copy(before, live));
  ctx.membership().offer_parameters_at(before);
  const std::uint64_t steps = ctx.step();
  const float rate = ctx.options().learning_rate.at(steps > 0 ? steps - 1 : 0);
  for (const auto& s : states) {
    if (!s.pending) continue;
    std::size_t i = 0;
    for (const index_range r : s.cut->ranges) {
      for (auto at = static_cast<std::size_t>(r.begin); at < static_cast<std::size_t>(r.end); ++at, ++i) {
        live[at] -= s.input[i] > 0 ? rate : s.input[i] < 0 ? -rate : 0.0F;
      }
    }
  }
  ctx.parameters_changed();
  result<double> loss = pass();
  CAUSEWAY_TRY(ctx.rows().copy(live, before));
  ctx.membership().offer_parameters_at(live);
  ctx.parameters_changed();
  return loss;
}

}}}}  // namespace causeway::CAUSEWAY_ABI::comm::detail

#endif  // CAUSEWAY_COMM_LOOK_AHEAD_HPP
