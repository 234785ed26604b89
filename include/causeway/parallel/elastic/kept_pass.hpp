// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PARALLEL_ELASTIC_KEPT_PASS_HPP
#define CAUSEWAY_PARALLEL_ELASTIC_KEPT_PASS_HPP

// One peer's part of what is left of a pipeline's step. Everything that it computes is kept as it is computed, so that a
// pass that breaks off has lost nothing but what was on its way. Forwards of a stage that another peer has are repeated for
// the day on which that one is lost: their activations are kept and nothing is sent (Bamboo's eager forward; its lazy
// backward is an ordinary one, in the order of a peer that has two stages).

#include <causeway/config/config.hpp>
#include <causeway/core/result.hpp>
#include <causeway/nn/micro_batch.hpp>
#include <causeway/nn/model_part.hpp>
#include <causeway/parallel/elastic/step_snapshot.hpp>
#include <causeway/parallel/stage_model.hpp>
#include <causeway/plan/resumed_order.hpp>
#include <causeway/plan/schedule.hpp>
#include <causeway/tensor/batch.hpp>
#include <causeway/tensor/tensor.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace parallel {

struct kept_pass_setup {
  const plan::step_progress& before;          ///< of the pipeline, when the attempt began
  std::uint32_t rank = 0;                     ///< of this peer, as `before.owners` counts
  const std::vector<plan::operation>& order;  ///< its own, with forwards that it repeats
  std::span<const nn::block_range> stages;    ///< [stage]: its blocks
  const batch& piece;                         ///< of the pipeline
  float grad_scale = 0;
  std::span<const std::uint64_t> dropout;  ///< [micro-batch]
  std::span<float> table{};                ///< a tied table's gradient in the model
};

/// One thread; one attempt.
template <StageModel M, class Mailbox>
class kept_pass {
 public:
  using step_type = step_snapshot<typename M::tape_type>;

  kept_pass(M& model, Mailbox& mailbox, step_type& step, const kept_pass_setup& setup)
      : model_{model}, mailbox_{mailbox}, step_{step}, setup_{setup} {}

  /// Adds what is left to the model's gradients. Whatever the outcome, `step` says what of it is done.
  result<void> run() {
    CAUSEWAY_TRY(send_again());
    for (const plan::operation& op : setup_.order) {
      swap_tables(op);
      auto done = op.kind == plan::work::forward ? forward(op) : backward(op);
      swap_tables(op);
      CAUSEWAY_TRY(std::move(done));
    }
    return mailbox_.flush();
  }

 private:
  using unit = typename step_type::unit;
  using state = plan::unit_state;

  [[nodiscard]] bool is_ours(std::size_t stage) const { return setup_.before.owners[stage] == setup_.rank; }

  // Whether another peer waits for what the operation gives.
  [[nodiscard]] bool is_wanted(const plan::operation& op) const {
    const std::size_t s = op.chunk;
    if (op.kind == plan::work::forward) {
      return s + 1 < setup_.stages.size() && !is_ours(s + 1) &&
             setup_.before.units[s + 1][op.micro_batch] == state::untouched;
    }
    return s > 0 && !is_ours(s - 1) && setup_.before.units[s - 1][op.micro_batch] != state::done;
  }

  // A tied table's gradient of the successor's stage is added up apart, so that it can be left out.
  void swap_tables(const plan::operation& op) {
    const bool end = op.chunk == 0 || op.chunk + 1 == setup_.stages.size();
    if (!end || op.chunk == step_.at.rank) return;
    step_.table.resize(setup_.table.size());
    std::swap_ranges(step_.table.begin(), step_.table.end(), setup_.table.begin());
  }

  // What an earlier attempt computed, and who needs it has not got, or has lost.
  result<void> send_again() {
    for (std::uint32_t m = 0; m < step_.micro_batches(); ++m) {
      for (std::uint32_t s = 0; s < setup_.stages.size(); ++s) {
        if (!is_ours(s)) continue;
        const unit& u = step_.of(s, m);
        const plan::operation forth{plan::work::forward, m, s}, back{plan::work::backward, m, s};
        if (u.state != state::untouched && is_wanted(forth)) CAUSEWAY_TRY(mailbox_.send(forth, values(u.output)));
        if (u.state == state::done && is_wanted(back)) CAUSEWAY_TRY(mailbox_.send(back, values(u.d_input)));
      }
    }
    return {};
  }

  result<void> forward(const plan::operation& op) {
    tensor boundary;
    tape_type tape = spare_tape();
    if (op.chunk > 0) {
      boundary = room(tape);
      if (is_ours(op.chunk - 1)) {  // so for what it repeats
        copy(step_.of(op.chunk - 1, op.micro_batch).output, boundary);
      } else {
        CAUSEWAY_TRY(mailbox_.take(op, boundary.template span<float>()));
      }
    }
    CAUSEWAY_TRY(compute(op, std::move(tape), std::move(boundary)));
    if (!is_ours(op.chunk) || !is_wanted(op)) return {};
    return mailbox_.send(op, values(step_.of(op.chunk, op.micro_batch).output));
  }

  result<void> backward(const plan::operation& op) {
    unit& u = step_.of(op.chunk, op.micro_batch);
    tensor d_output;
    if (op.chunk + 1 < setup_.stages.size()) {
      d_output = room(*u.tape);
      if (is_ours(op.chunk + 1)) {
        copy(step_.of(op.chunk + 1, op.micro_batch).d_input, d_output);
      } else {
        CAUSEWAY_TRY(mailbox_.take(op, d_output.template span<float>()));
      }
    }
    auto d_input = model_.backward_stage(*u.tape, u.pass, std::move(d_output));
    if (!d_input) return std::move(d_input).error();
    u.d_input = std::move(*d_input);
    u.state = state::done;
    u.tape->clear();
    step_.spare.push_back(std::move(*u.tape));
    u.tape.reset();
    u.pass = {};
    if (!is_wanted(op)) return {};
    return mailbox_.send(op, values(u.d_input));
  }

  // ---- parts ------------------------------------------------------------------------------------------------------------

  using tape_type = typename M::tape_type;

  result<void> compute(const plan::operation& op, tape_type tape, tensor boundary) {
    const std::int64_t sequences = setup_.piece.sequences / static_cast<std::int64_t>(step_.micro_batches());
    const batch piece = setup_.piece.slice(op.micro_batch * sequences, sequences);
    const nn::micro_batch b{piece.inputs, piece.targets, sequences, setup_.grad_scale, setup_.dropout[op.micro_batch]};
    unit& u = step_.of(op.chunk, op.micro_batch);
    u.tape.emplace(std::move(tape));
    CAUSEWAY_ASSIGN(
        u.pass, model_.forward_stage(*u.tape, setup_.stages[op.chunk], b, std::move(boundary), nn::pass_kind::recorded));
    u.output = std::move(u.pass.output.value);
    u.pass.output.value.reset();  // the backward needs only its slot
    u.loss = u.pass.loss;
    u.state = state::forward;
    return {};
  }

  // For what crosses a boundary, in memory of the model.
  [[nodiscard]] tensor room(tape_type& tape) {
    const std::int64_t rows = setup_.piece.tokens() / static_cast<std::int64_t>(step_.micro_batches());
    return tape.make(dtype::f32, {rows, model_.width()});
  }
  // A copy, since a pass may use up what it is given.
  static void copy(const tensor& from, tensor& to) {
    const auto source = from.template span<float>();
    std::copy(source.begin(), source.end(), to.template span<float>().begin());
  }
  [[nodiscard]] static std::span<const float> values(const tensor& t) { return t.template span<float>(); }

  [[nodiscard]] tape_type spare_tape() {
    if (step_.spare.empty()) return model_.make_tape();
    tape_type t = std::move(step_.spare.back());
    step_.spare.pop_back();
    return t;
  }

  M& model_;
  Mailbox& mailbox_;
  step_type& step_;
  kept_pass_setup setup_;
};

}}}  // namespace causeway::CAUSEWAY_ABI::parallel

#endif  // CAUSEWAY_PARALLEL_ELASTIC_KEPT_PASS_HPP
