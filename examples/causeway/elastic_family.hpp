// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_EXAMPLES_ELASTIC_FAMILY_HPP
#define CAUSEWAY_EXAMPLES_ELASTIC_FAMILY_HPP

// A run of one model family whose peers come and go. Included by the file of that family alone: it instantiates much.

#include <causeway/fault/quorum.hpp>
#include <causeway/parallel/data_parallel.hpp>
#include <causeway/train/trainer.hpp>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <string_view>
#include <utility>

#include "compose.hpp"
#include "elastic_session.hpp"
#include "noted_round.hpp"
#include "run_model.hpp"
#include "swarm_place.hpp"

namespace app {

/// data_parallel that says how much it computed, and takes batches of any size: the last samples of a run, or of a peer's
/// range, may be fewer than a batch.
class paced_data_parallel {
 public:
  static constexpr std::string_view name = "paced_data_parallel";
  static constexpr causeway::parallel_traits traits{};
  static constexpr std::uint32_t state_version = 1;
  using pace = std::function<void(std::int64_t tokens, double part)>;

  explicit paced_data_parallel(std::int64_t micro_batches = 1, pace computed = {})
      : micro_batches_{micro_batches}, computed_{std::move(computed)} {}

  causeway::result<void> start(auto&) { return {}; }
  causeway::result<double> forward_backward(auto& ctx, const causeway::batch& b) {
    std::int64_t pieces = std::min(micro_batches_, b.sequences);
    while (b.sequences % pieces != 0) ++pieces;  // ends at b.sequences at the latest
    causeway::parallel::data_parallel inner{{.micro_batches = pieces}};
    auto loss = inner.forward_backward(ctx, b);
    if (computed_) computed_(b.tokens(), 1);
    return loss;
  }

  causeway::result<float> norm(auto& ctx) { return ctx.own_norm(); }
  causeway::result<void> after_step(auto&) { return {}; }
  causeway::result<double> evaluate(auto& ctx, const causeway::batch& b) {
    return causeway::parallel::data_parallel{}.evaluate(ctx, b);
  }
  void serialize(auto&) {}

 private:
  std::int64_t micro_batches_;
  pace computed_;
};
static_assert(causeway::ParallelismPolicy<paced_data_parallel>);

template <class Model>
causeway::result<session_summary> run_elastic(Model model, session_input& in, elastic_place& place,
                                              causeway::environment env) {
  return with_comm(in.s, [&](auto comm) -> causeway::result<session_summary> {
    auto trainer =
        causeway::make_trainer(std::move(model), std::move(env), trainer_options_of(in.s), inner_of(in.s), std::move(comm),
                               paced_data_parallel{in.s.train.micro_batches, place.computed}, causeway::fault::quorum{});
    return run_session(trainer, in, place);
  });
}

template <class Model>
causeway::result<session_summary> run_elastic_family(const typename Model::options_type& options, session_input& in,
                                                     elastic_place& place, causeway::environment env) {
  if (place.crew != nullptr) {  // it begins with one block, until it knows who else is there
    CAUSEWAY_ASSIGN(Model part, make_model<Model>(options, in.s, causeway::nn::model_part{{0, 1}}));
    return train_elastic_pipeline(chosen_model::of(std::move(part)), in, place, std::move(env));
  }
  if (place.swarm != nullptr) {
    const causeway::nn::model_part stage{blocks_of(in.s, place.swarm->options().stage)};
    CAUSEWAY_ASSIGN(Model part, make_model<Model>(options, in.s, stage));
    return train_swarm(chosen_model::of(std::move(part)), in, place, std::move(env));
  }
  CAUSEWAY_ASSIGN(Model model, make_model<Model>(options, in.s));
  return run_elastic(std::move(model), in, place, std::move(env));
}

}  // namespace app

#endif  // CAUSEWAY_EXAMPLES_ELASTIC_FAMILY_HPP
