// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PARALLEL_ELASTIC_RESUMABLE_STEP_HPP
#define CAUSEWAY_PARALLEL_ELASTIC_RESUMABLE_STEP_HPP

// How the peers of an attempt go on with a step that an earlier attempt began: each tells what it has done, all work out
// who does what is left in which order, and nothing that is there is computed again.

#include <causeway/collective/group_view.hpp>
#include <causeway/collective/options.hpp>
#include <causeway/config/config.hpp>
#include <causeway/core/hash.hpp>
#include <causeway/core/result.hpp>
#include <causeway/kernels/elementwise.hpp>
#include <causeway/net/transport.hpp>
#include <causeway/nn/model_part.hpp>
#include <causeway/parallel/elastic/assigned_work.hpp>
#include <causeway/parallel/elastic/kept_pass.hpp>
#include <causeway/parallel/elastic/step_group.hpp>
#include <causeway/parallel/elastic/step_snapshot.hpp>
#include <causeway/parallel/pipeline/pipeline_mailbox.hpp>
#include <causeway/parallel/tied_table.hpp>
#include <causeway/plan/resumed_order.hpp>
#include <causeway/plan/schedule.hpp>
#include <causeway/stage/layout.hpp>
#include <causeway/stage/recovery.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace parallel {

/// Peers, assignments and shares of a layout.
CAUSEWAY_DECL hasher& add_layout(hasher& h, const stage::layout& l);

/// How the peers whom a step concerns reach each other about it, and in it.
struct step_exchange {
  net::any_transport& transport;  ///< to them: all of the attempt, or where a replica's step is its own, those of it
  const std::map<std::uint64_t, net::peer_index>& index_of;  ///< by id: the transport's number of each
  net::message_id progress;
  collective::collective_options how;
  boundary_options boundaries;
};

/// Of one peer. One thread.
class resumable_step {
 public:
  /// What others are told; `keeps`: the model's part.
  CAUSEWAY_DECL [[nodiscard]] stage::begun_step described(const step_record& w, std::vector<nn::block_range> keeps) const;

  /// The run has taken the step, or the part of the model is about to change.
  void forget() noexcept { step_.reset(); }

  /// Whether some of the step from these parameters is done, or was begun.
  [[nodiscard]] bool is_of(std::uint64_t state) const noexcept { return step_ != nullptr && step_->state == state; }

  /// Nothing is done of the step yet. `state`: names the parameters; `at`: this peer's place in the layout; nullptr: spare.
  template <class Tape>
  void begin(std::uint64_t state, const stage::layout& l, const stage::layout::place* at) {
    step_.reset();
    told_.clear();
    agreed_ = 0;
    if (at == nullptr) return;
    step_ = std::make_unique<step_snapshot<Tape>>(l, *at);
    step_->state = state;
    hasher h;
    step_->name = add_layout(h.add_value(state), l).finish() | 1U;
  }

  /// An earlier attempt did some of it: hears what. `assigned`: this peer has an assignment in the layout.
  CAUSEWAY_DECL result<void> resume(const step_exchange& exchange, bool assigned, std::uint32_t micro_batches);

  /// Of what all peers of the attempt had done before it; 0: nothing.
  [[nodiscard]] std::uint64_t agreed() const noexcept { return agreed_; }

  /// Does this peer's part of what is left, in a layout that has passed its check. The gradients are those of all that it
  /// has done of the step, whatever was in them. Returns the sum of the losses of the tokens whose last stage is here.
  template <class Context, class Codec>
  result<double> run(Context& ctx, const stage::layout& l, Codec& codec, const assigned_batch& b,
                     const step_exchange& exchange, bool repeats_all) {
    const auto gradients = ctx.gradients();
    kernels::zero(ctx.pool(), gradients.data(), static_cast<std::int64_t>(gradients.size()));
    if (step_ == nullptr) return 0.0;
    auto& step = static_cast<step_of<Context>&>(*step_);
    const stage::replica& mine = l.replicas[step.at.replica];
    if (mine.micro_batches == 0) return 0.0;
    CAUSEWAY_ASSIGN(const plan::step_progress before, standing(mine, exchange));
    std::copy(step.gradients.begin(), step.gradients.end(), gradients.begin());
    const std::uint32_t self = before.owners[step.at.rank];
    const bool shadows = before.owners[step.successor] != self;
    if (shadows && step.give_back()) zero(ctx, mine.assignments[step.successor].computes);
    auto done = pass(ctx, step, before, l, codec, b, exchange, repeats_all);
    step.gradients.assign(gradients.begin(), gradients.end());
    if (!done) return std::move(done).error();
    if (shadows) {
      zero(ctx, mine.assignments[step.successor].computes);  // the successor's own count
    } else {
      add_table(ctx, step);
    }
    double loss = 0;
    for (std::size_t m = 0; m < step.micro_batches() && before.owners.back() == self; ++m)
      loss += step.of(step.stages - 1, m).loss;
    return loss;
  }

 private:
  template <class Context>
  using step_of = step_snapshot<typename std::remove_cvref_t<decltype(std::declval<Context&>().model())>::tape_type>;

  // How far the pipeline is, and who does the rest; owners are places in `assigned()`.
  CAUSEWAY_DECL [[nodiscard]] result<plan::step_progress> standing(const stage::replica& r,
                                                                   const step_exchange& exchange) const;

  static void zero(auto& ctx, const nn::block_range& blocks) {
    const auto part = untied_blocks_in(ctx.model(), ctx.gradients(), blocks);
    std::fill(part.begin(), part.end(), 0.0F);
  }
  // Of the successor's stage to that of its own: the order in which two peers' would be summed makes no difference.
  static void add_table(auto& ctx, const any_step_snapshot& step) {
    const auto table = table_in(ctx.model(), ctx.gradients());
    if (step.table.empty()) return;
    kernels::axpy(ctx.pool(), table.data(), 1.0F, step.table.data(), static_cast<std::int64_t>(table.size()));
  }

  // Micro-batches whose forward through the successor's stage is not here.
  template <class Step>
  [[nodiscard]] static std::vector<std::uint32_t> to_repeat(Step& step, const plan::step_progress& before) {
    std::vector<std::uint32_t> missing;
    if (before.owners[step.successor] == before.owners[step.at.rank]) return missing;
    for (std::uint32_t m = 0; m < step.micro_batches(); ++m) {
      if (step.of(step.successor, m).state == plan::unit_state::untouched) missing.push_back(m);
    }
    return missing;
  }

  template <class Context, class Codec>
  static result<void> pass(Context& ctx, step_of<Context>& step, const plan::step_progress& before, const stage::layout& l,
                           Codec& codec, const assigned_batch& b, const step_exchange& exchange, bool repeats_all) {
    const stage::replica& mine = l.replicas[step.at.replica];
    const std::uint32_t self = before.owners[step.at.rank], micro_batches = mine.micro_batches;
    CAUSEWAY_ASSIGN(const auto plans, plan::resumed_orders(before));
    const auto order = plan::with_repeats(plans[self], step.successor, to_repeat(step, before), repeats_all);
    const std::int64_t sequences = b.whole.sequences / b.micro_batches;
    const batch piece = b.whole.slice(l.first_micro_batch(step.at.replica) * sequences, micro_batches * sequences);
    std::vector<nn::block_range> stages;
    for (const stage::assignment& s : mine.assignments) stages.push_back(s.computes);
    std::vector<net::peer_index> peers;
    for (const std::uint64_t id : mine.assigned()) peers.push_back(exchange.index_of.at(id));
    collective::group_view view{exchange.transport, std::move(peers)};
    // All stages on one rank, for the mailbox: an operation's chunk is its stage.
    const plan::schedule all{1, static_cast<std::uint32_t>(step.stages), micro_batches, true, {order}};
    const std::vector routes(micro_batches, before.owners);
    boundary_options boundaries = exchange.boundaries;
    boundaries.window = micro_batches;  // all that was kept may be sent again at once
    boundaries.routes = &routes;
    pipeline_mailbox<Codec> mailbox{view, codec, {ctx.pool(), all, piece, ctx.model().width(), 0, boundaries}};
    const auto table = table_in(ctx.model(), ctx.gradients());
    kept_pass run{ctx.model(), mailbox, step, {before, self, order, stages, piece, b.grad_scale, b.dropout, table}};
    return run.run();
  }

  std::unique_ptr<any_step_snapshot> step_;
  std::vector<std::vector<std::byte>> told_;  // by the transport's numbers; empty: of a step that nobody has begun
  std::uint64_t agreed_ = 0;
};

}}}  // namespace causeway::CAUSEWAY_ABI::parallel

#ifndef CAUSEWAY_COMPILED
#include <causeway/parallel/elastic/impl/resumable_step.ipp>
#endif

#endif  // CAUSEWAY_PARALLEL_ELASTIC_RESUMABLE_STEP_HPP
