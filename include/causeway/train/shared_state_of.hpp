// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TRAIN_SHARED_STATE_OF_HPP
#define CAUSEWAY_TRAIN_SHARED_STATE_OF_HPP

// What a trainer's peers hold alike where they come and go: of the model and the inner optimizer, of the communication
// policy and of the context; and what is done when it is replaced.

#include <causeway/core/error.hpp>
#include <causeway/core/result.hpp>
#include <causeway/membership/state_image.hpp>
#include <causeway/train/run_group.hpp>

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace detail {

/// Does a round again, from its mean. The gradients may be what this peer is about to exchange.
template <class Context, class Comm>
result<void> replay_round(Context& ctx, Comm& comm, std::span<const float> mean) {
  const std::span<float> row = ctx.gradients();
  if (mean.size() != row.size()) return fail(errc::wrong_model, "replay", "the mean of a round has another length");
  const std::vector<float> own(row.begin(), row.end());
  std::copy(mean.begin(), mean.end(), row.begin());
  auto outcome = comm.replay(ctx);
  std::copy(own.begin(), own.end(), row.begin());
  ctx.parameters_changed();
  return outcome;
}

/// Both must stay where they are as long as it is used.
template <class Context, class Comm>
shared_state shared_state_of(Context& ctx, Comm& comm) {
  membership::image_collector parts;
  if constexpr (Comm::traits.exchanges_gradients) {
    parts.view(ctx.parameters());
    parts(ctx.inner());
  }
  const std::size_t of_model = parts.parts().size();
  comm.shared(parts);
  parts(ctx.shared_random());
  if constexpr (Comm::traits.own_parameters) parts.own(ctx.parameters());
  shared_state state{parts.parts(), [&ctx, &comm](std::span<const float> previous) {
                       if (previous.empty()) ctx.contribution().give_up();
                       comm.adopt(ctx, previous);
                       ctx.parameters_changed();
                     }};
  state.of_model = of_model;
  state.own = parts.own_parts();
  state.round_samples = ctx.contribution().round_samples();
  state.by_pace = ctx.contribution().by_pace();
  state.round_seconds = ctx.contribution().round_seconds();
  state.stage_sums = ctx.stages().most_asked();
  if constexpr (Comm::traits.replays) {
    if (comm.replays()) {
      state.replay = [&ctx, &comm](std::span<const float> mean) { return replay_round(ctx, comm, mean); };
    }
  }
  if constexpr (Comm::traits.talks_between) state.meanwhile = comm.meanwhile(ctx);
  if constexpr (Comm::traits.trains_paths) share_paths(state.exchange, comm, ctx);
  if constexpr (Comm::traits.moves_with_blocks) move_with_blocks(state.exchange, comm, ctx);
  return state;
}

}}}  // namespace causeway::CAUSEWAY_ABI::detail

#endif  // CAUSEWAY_TRAIN_SHARED_STATE_OF_HPP
