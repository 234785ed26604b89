// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PARALLEL_ELASTIC_STEP_GRADIENT_HPP
#define CAUSEWAY_PARALLEL_ELASTIC_STEP_GRADIENT_HPP

// What a peer computes of a step in an attempt: its part of the gradient from the beginning, or, with a recovery policy
// that keeps work, on from what earlier attempts have done.

#include <causeway/core/result.hpp>
#include <causeway/nn/model_part.hpp>
#include <causeway/parallel/elastic/assigned_work.hpp>
#include <causeway/parallel/elastic/pipeline_peer.hpp>
#include <causeway/parallel/elastic/resumable_step.hpp>
#include <causeway/parallel/elastic/step_group.hpp>
#include <causeway/parallel/elastic/step_meetings.hpp>
#include <causeway/stage/layout.hpp>
#include <causeway/stage/recovery.hpp>
#include <causeway/tensor/batch.hpp>

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace parallel {

/// Of one peer.
class step_gradient {
 public:
  /// Attempts that went on with a step.
  [[nodiscard]] std::uint64_t resumed_attempts() const noexcept { return resumed_attempts_; }
  /// See resumable_step.
  [[nodiscard]] std::uint64_t agreed() const noexcept { return kept_.agreed(); }
  /// Of step number `step`. Work at another one is forgotten: several may begin with one state, where gradients are
  /// gathered.
  [[nodiscard]] stage::begun_step described(const step_record& record, std::uint64_t step,
                                            std::vector<nn::block_range> keeps) {
    if (std::exchange(step_, step) != step) kept_.forget();
    return kept_.described(record, std::move(keeps));
  }
  void forget() noexcept { kept_.forget(); }

  /// Whether the attempt under way goes on with the step is the policy's to say.
  template <stage::Recovery Recovery>
  void attempt(const Recovery& recovery, const stage::cluster_snapshot& snapshot) {
    if constexpr (stage::WorkKeeping<Recovery>) resumes_ = recovery.resumes(snapshot);
  }

  /// The sum of the losses of the tokens whose last stage is here. The gradient is this peer's part of that of the mean
  /// over the whole batch.
  template <stage::Recovery Recovery>
  result<double> compute(auto& ctx, const pipeline_peer& peer, const step_meetings& meetings, const auto& order,
                         const Recovery& recovery, auto& codec, const batch& whole, std::int64_t micro_batches) {
    const auto scale = 1.0F / static_cast<float>(whole.tokens());
    if constexpr (stage::WorkKeeping<Recovery>) {
      return go_on(ctx, peer, meetings, recovery, codec, whole, static_cast<std::uint32_t>(micro_batches), scale);
    } else {
      return peer.train(ctx, order, recovery, codec, whole, micro_batches, scale, meetings.name(peer));
    }
  }

 private:
  result<double> go_on(auto& ctx, const pipeline_peer& peer, const step_meetings& meetings, const auto& recovery,
                       auto& codec, const batch& whole, std::uint32_t micro_batches, float scale) {
    using tape = typename std::remove_cvref_t<decltype(ctx.model())>::tape_type;
    const stage::layout& l = peer.layout;
    const std::size_t r = peer.place.replica;
    const bool is_assigned = peer.assignment != nullptr;
    const step_exchange exchange{*peer.attempt.transport, peer.index_of,
                                 meetings.named(peer, pipeline_peer::progress_channel), peer.how(ctx),
                                 peer.boundaries(ctx.step(), meetings.name(peer))};
    if (resumes_) {
      ++resumed_attempts_;
      CAUSEWAY_TRY(kept_.resume(exchange, is_assigned, micro_batches));
    } else {
      kept_.template begin<tape>(peer.record().state, l, is_assigned ? &peer.place : nullptr);
    }
    std::vector<std::uint64_t> dropout;
    if (is_assigned) dropout = pipeline_peer::dropout_of(ctx.step(), l.first_micro_batch(r), l.replicas[r].micro_batches);
    const assigned_batch share{whole, micro_batches, is_assigned ? peer.assignment->computes : nn::block_range{},
                               scale, true,          dropout};
    return kept_.run(ctx, l, codec, share, exchange, recovery.repeats_all());
  }

  resumable_step kept_;
  std::uint64_t step_ = 0;  // that it is of
  bool resumes_ = false;
  std::uint64_t resumed_attempts_ = 0;
};

}}}  // namespace causeway::CAUSEWAY_ABI::parallel

#endif  // CAUSEWAY_PARALLEL_ELASTIC_STEP_GRADIENT_HPP
