// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PARALLEL_LOCAL_SWARM_HPP
#define CAUSEWAY_PARALLEL_LOCAL_SWARM_HPP

// A swarm whose peers take steps on their own: each on the micro-batches that passed through it, H times; then the peers of
// a stage average what they have moved (DiLoCo within every stage of SWARM).
//
// Between two exchanges the peers of a stage hold different values. So a micro-batch goes back through the very peers that
// it came forward through, and nobody takes a local step before all stages have all micro-batches of the step: no gradient
// mixes values of two steps, or of two peers of a stage. docs/design/swarm.md has the rules for what is lost.

#include <causeway/config/config.hpp>
#include <causeway/core/error.hpp>
#include <causeway/core/result.hpp>
#include <causeway/kernels/elementwise.hpp>
#include <causeway/nn/declaration.hpp>
#include <causeway/parallel/micro_batches.hpp>
#include <causeway/parallel/pipeline/embedding_base.hpp>
#include <causeway/parallel/stage_model.hpp>
#include <causeway/parallel/swarm.hpp>
#include <causeway/parallel/swarm/swarm_peer.hpp>
#include <causeway/policy/concepts.hpp>
#include <causeway/stage/activation.hpp>
#include <causeway/tensor/batch.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace parallel {

/// After DiLoCo (Douillard et al., arXiv 2311.08105) and SWARM (Ryabinin et al., arXiv 2301.11913); no paper has the rules
/// for peers that are lost, which are derived in docs/design/swarm.md. With M micro-batches a step, of which peer i of a
/// stage had the set S_i(k) in step k:
///   θ_i ← inner(θ_i, 1/|S_i(k)| Σ_{m ∈ S_i(k)} ∇_m),  k = 1 ... H;    Δ_i = θ − θ_i;
///   Δ = Σ_i n_i Δ_i / Σ_i n_i (as the policy's exchange makes a weighted mean),  n_i = Σ_k |S_i(k)|;    θ ← outer(θ, Δ);
///   θ_i ← θ.
/// Where parameters themselves are exchanged, θ_i is replaced by the same mean of them; where fragments of the model take
/// turns, all this holds for each of them; n_i is that of the steps that Δ_i is of where results are a round late. Needs a
/// policy of local steps (rule C6: comm::periodic, or comm::rounds of pseudo-gradients or parameters, whenever their
/// results are applied; or of gradients that gather), with no more than swarm_options::local_steps steps between two
/// exchanges, fault::quorum, and an environment whose group is a train::swarm_group over the same swarm_peer. Every peer
/// of every stage is given the same global batch, as a function of trainer.context().step(); the schedule of the learning
/// rate goes by that step, so by global samples.
///
/// What counts in Δ is every micro-batch of the H steps, once in every stage: what a lost peer had stepped on is computed
/// again before the exchange, with the values of then, and stepped on (one more inner step of those who do). A peer that
/// joins or comes back starts from θ, passes the steps that the others have taken already, and has the weight of what it
/// did. Where the peers of a stage meet in groups, θ is each peer's own, and one that joins serves from its first exchange
/// on. Gradients are clipped by the norm of what the peer itself has of its stage: nobody has the whole model's.
///
/// A policy that gathers gradients (axis::global_samples) has Σ_k Σ_{m ∈ S_i(k)} ∇_m / n_i of each peer for a row instead,
/// and θ takes one step with their mean once a round has enough samples, which all count alike. No parameter moves
/// meanwhile, so what a lost peer had is computed again as it was: the step is that of one batch of all samples, clipped by
/// the norm of the whole model.
///
/// Bytes: boundaries as parallel::swarm; between the peers of a stage, an exchange of P values in H steps. Memory beside
/// that of swarm: θ, the outer optimizer's state, and the tokens of H steps.
template <stage::ActivationCodec Codec = stage::plain>
class local_swarm {
  static_assert(!Codec::traits.stateful && !Codec::traits.needs_samples,
                "causeway-P6: micro-batches of a swarm go through other peers every time, which cannot know what a codec "
                "with a memory remembers; use stage::plain, another stage::coded or stage::subspace. "
                "docs/reference/rules.md#p6");

 public:
  static constexpr std::string_view name = "local_swarm";
  static constexpr parallel_traits traits{.staged = true,
                                          .reroutes = true,
                                          .global_step = true,
                                          .sums_over_stages = true,
                                          .gathers_together = true,
                                          .computes_late = true};
  static constexpr std::uint32_t state_version = 1;

  explicit local_swarm(std::shared_ptr<swarm_peer> peer = nullptr, Codec codec = Codec{})
      : peer_{std::move(peer)}, codec_{std::move(codec)} {}

  result<void> start(auto& ctx) {
    if constexpr (has_stages<std::remove_cvref_t<decltype(ctx.model())>>()) {
      if (peer_ != nullptr) CAUSEWAY_TRY(check_options(peer_->options()));
      if (peer_ != nullptr && peer_->options().stages > 1 && ctx.model().tied_table() != nn::not_held) {
        return fail(errc::unsupported, std::string{name},
                    "first and last stage would share a table, and each would average its own moves of it; build the model "
                    "with untied embeddings, or use parallel::swarm");
      }
      if (peer_ != nullptr) ctx.stages().ask(*peer_);
      return detail::open_swarm(name, ctx, peer_.get(), codec_, base_);
    }
    return {};  // the refusal is the only error
  }

  /// The mean loss over the global batch; 0 for a step that this peer passed, since the others had taken it.
  result<double> forward_backward(auto& ctx, const batch& b) {
    const swarm_options& o = peer_->options();
    CAUSEWAY_TRY(check_batch(name, b, o.micro_batches));
    const std::uint32_t steps_before = peer_->progress().size() / static_cast<std::uint32_t>(o.micro_batches);
    CAUSEWAY_TRY(keep(b, steps_before));
    using computer_type = detail::stage_computer<std::remove_cvref_t<decltype(ctx)>, Codec>;
    step_ = {{inputs_.data() + inputs_.size() - b.inputs.size(), b.inputs.size()},
             {targets_.data() + targets_.size() - b.targets.size(), b.targets.size()},
             b.sequences};
    computer_ = std::make_shared<computer_type>(ctx, codec_, step_, o.micro_batches, nn::pass_kind::recorded, base_);
    peer_->has_values(!ctx.contribution().paused());
    CAUSEWAY_ASSIGN(const double sum, peer_->run(ctx.step(), *computer_));
    const std::uint64_t own = peer_->contributed();
    take_mean(ctx, own);
    ctx.contribution().gathered(static_cast<std::uint64_t>(b.sequences) * (1 + steps_before));
    ctx.contribution().takes_part(own * static_cast<std::uint64_t>(b.sequences / o.micro_batches));
    const auto steps = static_cast<std::int64_t>(inputs_.size() / b.inputs.size());
    round_ = {inputs_, targets_, b.sequences * steps};
    computer_ =
        std::make_shared<computer_type>(ctx, codec_, round_, o.micro_batches * steps, nn::pass_kind::recorded, base_);
    peer_->end_local_step(ctx.step(), *computer_);
    return sum / static_cast<double>(b.tokens());
  }

  /// Where gradients were gathered and exchanged, of the whole model; else of what this peer has of its stage.
  result<float> norm(auto& ctx) { return gathers(ctx) ? peer_->norm() : ctx.own_norm(); }
  result<void> after_step(auto&) { return {}; }

  /// As swarm::evaluate. Between exchanges every micro-batch meets other values: best right after one. Of a model of
  /// modules each path has its part of the batch, as in training; or the shared parameters of one `path` have all of it.
  result<double> evaluate(auto& ctx, const batch& b, std::optional<std::uint32_t> path = {}) {
    peer_->has_values(!ctx.contribution().paused());
    return detail::evaluate_in_swarm(name, ctx, *peer_, b, path);
  }

  void serialize(auto&) {}  // a peer that is started again begins where the last exchange ended

  /// For the environment's swarm_group.
  [[nodiscard]] const std::shared_ptr<swarm_peer>& peer() const noexcept { return peer_; }

 private:
  [[nodiscard]] static bool gathers(auto& ctx) { return ctx.contribution().gathers_gradients(); }

  static result<void> check_options(const swarm_options& o) {
    const auto all = static_cast<std::uint64_t>(o.micro_batches) * o.local_steps;
    if (o.local_steps > 0 && all <= swarm_wire::most_micro_batches) return {};
    return fail(errc::invalid_argument, std::string{name},
                "local_steps · micro_batches is " + std::to_string(all) + "; it must be 1 to " +
                    std::to_string(swarm_wire::most_micro_batches) + ", equal on all peers");
  }

  // The batches of a round are kept until its exchange.
  result<void> keep(const batch& b, std::uint32_t step) {
    if (step == peer_->options().local_steps) {
      return fail(errc::invalid_argument, std::string{name},
                  "after swarm_options::local_steps steps, " + std::to_string(step) +
                      ", the communication policy has no exchange; give as many as are between two of its exchanges");
    }
    const std::size_t before = b.inputs.size() * step;
    if (step > 0 && inputs_.size() != before) {
      return fail(errc::invalid_argument, std::string{name}, "global batches of one round differ in size");
    }
    inputs_.resize(before);
    targets_.resize(before);
    inputs_.insert(inputs_.end(), b.inputs.begin(), b.inputs.end());
    targets_.insert(targets_.end(), b.targets.begin(), b.targets.end());
    return {};
  }

  // Gradients are scaled for the mean over all micro-batches of the step, of which this peer has some.
  void take_mean(auto& ctx, std::uint64_t own) {
    const auto g = ctx.gradients();
    if (own == 0 && gathers(ctx)) return;  // the others' may be enough for a step
    if (own == 0) return ctx.skip_inner_step();
    const auto all = static_cast<std::uint64_t>(peer_->options().micro_batches);
    if (own == all) return;
    kernels::scale(ctx.pool(), g.data(), static_cast<float>(all) / static_cast<float>(own),
                   static_cast<std::int64_t>(g.size()));
  }

  std::shared_ptr<swarm_peer> peer_;
  Codec codec_;
  embedding_base base_;                         // empty where the codec reads none
  std::vector<std::int32_t> inputs_, targets_;  // of the steps since the last exchange
  batch step_, round_;
  std::shared_ptr<swarm_computer> computer_;
};
static_assert(ParallelismPolicy<local_swarm<>>);

}}}  // namespace causeway::CAUSEWAY_ABI::parallel

#endif  // CAUSEWAY_PARALLEL_LOCAL_SWARM_HPP
