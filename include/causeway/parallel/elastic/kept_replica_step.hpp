// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PARALLEL_ELASTIC_KEPT_REPLICA_STEP_HPP
#define CAUSEWAY_PARALLEL_ELASTIC_KEPT_REPLICA_STEP_HPP

// How a replica that takes steps of its own goes on with one that was under way when a peer was lost, by a recovery policy
// that keeps work: as all pipelines do with a step that they make together, but only its own peers have a part in it.

#include <causeway/core/result.hpp>
#include <causeway/core/rng.hpp>
#include <causeway/net/transport.hpp>
#include <causeway/parallel/elastic/assigned_work.hpp>
#include <causeway/parallel/elastic/pipeline_peer.hpp>
#include <causeway/parallel/elastic/replica_sums.hpp>
#include <causeway/parallel/elastic/resumable_step.hpp>
#include <causeway/stage/layout.hpp>
#include <causeway/tensor/batch.hpp>

#include <cstdint>
#include <map>
#include <type_traits>
#include <utility>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace parallel {

/// Of one peer.
class kept_replica_step {
 public:
  /// The replica took the step, or what it has of its round is given up.
  void forget() noexcept { kept_.forget(); }

  /// What is left of the step: the sum of the losses of the tokens whose last stage is here. The gradient is all that this
  /// peer has done of the step. `s`: a replica_step; `number` names the boundaries. In the first step of each attempt peers
  /// tell each other what they have of it: 2 bytes for each micro-batch, within the replica. All are at the same step then,
  /// since who missed that the others took one heard of it before.
  result<double> run(auto& ctx, const auto& s, const batch& b, float scale, std::uint64_t number) {
    using tape = typename std::remove_cvref_t<decltype(ctx.model())>::tape_type;
    const pipeline_peer& peer = s.peer;
    const std::uint64_t state = mix(s.progress.now().cohort, s.progress.now().steps);
    if (!kept_.is_of(state)) kept_.template begin<tape>(state, peer.layout, &peer.place);
    net::any_transport mates{mates_of(peer)};
    const auto index_of = places_in(s.replica());
    const step_exchange exchange{mates, index_of, peer.named(pipeline_peer::progress_channel, mates_channel), peer.how(ctx),
                                 peer.boundaries(ctx.step(), number)};
    const std::uint32_t micro_batches = s.replica().micro_batches,
                        first = peer.layout.first_micro_batch(peer.place.replica);
    const std::pair now{peer.attempt.round, peer.attempt.attempt};
    if (std::exchange(told_in_, now) != now) CAUSEWAY_TRY(kept_.resume(exchange, true, micro_batches));
    const auto dropout = pipeline_peer::dropout_of(ctx.step(), first, micro_batches);
    const assigned_batch share{b,      static_cast<std::uint32_t>(s.micro_batches), peer.assignment->computes, scale, true,
                               dropout};
    return kept_.run(ctx, peer.layout, s.codec, share, exchange, s.recovery.repeats_all());
  }

 private:
  static constexpr std::uint64_t mates_channel = 2;  // what else is told on it in an attempt has 0 and 1

  // As mates_of numbers them.
  static std::map<std::uint64_t, net::peer_index> places_in(const stage::replica& r) {
    std::map<std::uint64_t, net::peer_index> places;
    for (const std::uint64_t id : r.assigned()) places.emplace(id, static_cast<net::peer_index>(places.size()));
    return places;
  }

  resumable_step kept_;
  std::pair<std::uint64_t, std::uint32_t> told_in_{};  // the attempt
};

}}}  // namespace causeway::CAUSEWAY_ABI::parallel

#endif  // CAUSEWAY_PARALLEL_ELASTIC_KEPT_REPLICA_STEP_HPP
