// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PARALLEL_PIPELINE_PIPELINE_PASS_HPP
#define CAUSEWAY_PARALLEL_PIPELINE_PIPELINE_PASS_HPP

// Walks one rank's order of a schedule over a batch: computes stages, takes inputs from the ranks beside it and sends
// outputs to them.

#include <causeway/config/config.hpp>
#include <causeway/core/result.hpp>
#include <causeway/nn/micro_batch.hpp>
#include <causeway/nn/model_part.hpp>
#include <causeway/nn/pass.hpp>
#include <causeway/parallel/stage_model.hpp>
#include <causeway/plan/schedule.hpp>
#include <causeway/plan/schedule_cursor.hpp>
#include <causeway/tensor/batch.hpp>
#include <causeway/tensor/tensor.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace parallel {

/// What a pass computes with.
struct pass_setup {
  const plan::schedule& schedule;
  std::uint32_t rank = 0;
  std::span<const nn::block_range> chunks;  ///< the blocks of each of the rank's chunks
  const batch& whole;
  float grad_scale = 0;
  bool training = true;
  std::span<const std::uint64_t> dropout{};  ///< of each micro-batch; none in evaluation
};

/// One thread; one pass.
template <StageModel M, class Mailbox>
class pipeline_pass {
 public:
  pipeline_pass(M& model, Mailbox& mailbox, const pass_setup& setup)
      : model_{model}, mailbox_{mailbox}, setup_{setup}, units_(setup.chunks.size() * setup.schedule.micro_batches) {
    for (const plan::operation& op : setup.schedule.orders[setup.rank]) {
      if (op.kind == plan::work::recompute) unit_of(op).recomputed = true;
    }
  }

  /// Runs the whole order. Gradients are added to the model's; the loss is the sum over the tokens, 0 but on the rank of
  /// the last stage.
  result<double> run(plan::schedule_cursor& cursor) {
    cursor.rewind();
    while (!cursor.finished()) {
      const auto next = cursor.next([this](const plan::operation& op) { return mailbox_.arrived(op) && is_given(op); });
      const plan::operation op = cursor.order()[next.index];
      if (!next.ready) {
        CAUSEWAY_TRY(mailbox_.wait_for(op));
        continue;  // something else may be ready by now, too
      }
      CAUSEWAY_TRY(perform(op));
      cursor.complete(next.index);
    }
    CAUSEWAY_TRY(mailbox_.flush());
    return loss_;
  }

 private:
  using tape_type = typename M::tape_type;

  // One micro-batch in one chunk, between its forward and its last gradient.
  struct unit {
    std::optional<tape_type> tape;
    nn::stage_pass pass;
    tensor input;  // kept where the activations are computed again
    tensor given;  // by another stage of this rank, until it is taken
    bool recomputed = false;
  };

  [[nodiscard]] unit& unit_of(const plan::operation& op) {
    return units_[std::size_t{op.chunk} * setup_.schedule.micro_batches + op.micro_batch];
  }

  result<void> perform(const plan::operation& op) {
    switch (op.kind) {
      case plan::work::forward: return forward(op);
      case plan::work::recompute: return recompute(op);
      case plan::work::weight_gradient: return weight_gradient(op);
      case plan::work::backward:
      case plan::work::input_gradient: break;
    }
    return backward(op);
  }

  result<void> forward(const plan::operation& op) {
    unit& u = unit_of(op);
    u.tape.emplace(spare_tape());
    tensor boundary;
    if (plan::source_of(setup_.schedule, setup_.rank, op)) {
      CAUSEWAY_ASSIGN(boundary, taken(u, op));
    }
    if (u.recomputed) u.input = boundary;
    const auto kind = !setup_.training ? nn::pass_kind::evaluation
                      : u.recomputed   ? nn::pass_kind::forgetful
                                       : nn::pass_kind::recorded;
    CAUSEWAY_TRY(compute(op, std::move(boundary), kind));
    loss_ += u.pass.loss;
    CAUSEWAY_TRY(pass_on(op, std::move(u.pass.output.value)));  // the backward needs only its slot
    if (kind != nn::pass_kind::recorded) release(u);
    return {};
  }

  result<void> recompute(const plan::operation& op) {
    unit& u = unit_of(op);
    u.tape.emplace(spare_tape());
    CAUSEWAY_TRY(compute(op, std::move(u.input), nn::pass_kind::recorded));
    u.pass.output.value.reset();
    return {};
  }

  result<void> backward(const plan::operation& op) {
    unit& u = unit_of(op);
    tensor d_output;
    if (plan::source_of(setup_.schedule, setup_.rank, op)) {
      CAUSEWAY_ASSIGN(d_output, taken(u, op));
    }
    const bool whole = op.kind == plan::work::backward;
    auto d_input = whole ? model_.backward_stage(*u.tape, u.pass, std::move(d_output))
                         : model_.backward_inputs(*u.tape, u.pass, std::move(d_output));
    if (!d_input) return std::move(d_input).error();
    CAUSEWAY_TRY(pass_on(op, *std::move(d_input)));
    if (whole) release(u);
    return {};
  }

  result<void> weight_gradient(const plan::operation& op) {
    unit& u = unit_of(op);
    CAUSEWAY_TRY(model_.backward_weights(*u.tape));
    release(u);
    return {};
  }

  result<void> compute(const plan::operation& op, tensor boundary, nn::pass_kind kind) {
    const std::int64_t sequences = setup_.whole.sequences / setup_.schedule.micro_batches;
    const batch piece = setup_.whole.slice(op.micro_batch * sequences, sequences);
    const nn::micro_batch b{piece.inputs, piece.targets, sequences, setup_.grad_scale,
                            setup_.dropout.empty() ? 0 : setup_.dropout[op.micro_batch]};
    unit& u = unit_of(op);
    CAUSEWAY_ASSIGN(u.pass, model_.forward_stage(*u.tape, setup_.chunks[op.chunk], b, std::move(boundary), kind));
    return {};
  }

  // The unit of this rank that an operation's output goes to.
  [[nodiscard]] unit& next_unit(const plan::operation& op) {
    const auto target = plan::target_of(setup_.schedule, setup_.rank, op);
    return unit_of({op.kind, op.micro_batch, target->chunk});
  }

  // Whether an input from a stage of this rank is there, if there is such a one.
  [[nodiscard]] bool is_given(const plan::operation& op) {
    const bool needed = plan::source_of(setup_.schedule, setup_.rank, op) && !mailbox_.has_input(op);
    return !needed || unit_of(op).given;
  }

  // What an operation gives, if it gives anything, to the stage that needs it.
  result<void> pass_on(const plan::operation& op, tensor values) {
    if (!values) return {};
    if (!mailbox_.stays(op)) return mailbox_.send(op, values.template span<float>());
    next_unit(op).given = std::move(values);
    return {};
  }

  // The input of an operation, in memory of the model.
  result<tensor> taken(unit& u, const plan::operation& op) {
    if (!mailbox_.has_input(op)) return std::exchange(u.given, tensor{});
    const std::int64_t rows = setup_.whole.tokens() / setup_.schedule.micro_batches;
    tensor values = u.tape->make(dtype::f32, {rows, model_.width()});
    CAUSEWAY_TRY(mailbox_.take(op, values.template span<float>()));
    return values;
  }

  [[nodiscard]] tape_type spare_tape() {
    if (spare_.empty()) return model_.make_tape();
    tape_type t = std::move(spare_.back());
    spare_.pop_back();
    return t;
  }

  void release(unit& u) {
    u.tape->clear();
    spare_.push_back(std::move(*u.tape));
    u.tape.reset();
    u.pass = {};
  }

  M& model_;
  Mailbox& mailbox_;
  pass_setup setup_;
  std::vector<unit> units_;  // [chunk · micro-batches + micro-batch]
  std::vector<tape_type> spare_;
  double loss_ = 0;
};

}}}  // namespace causeway::CAUSEWAY_ABI::parallel

#endif  // CAUSEWAY_PARALLEL_PIPELINE_PIPELINE_PASS_HPP
