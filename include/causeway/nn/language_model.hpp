// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_NN_LANGUAGE_MODEL_HPP
#define CAUSEWAY_NN_LANGUAGE_MODEL_HPP

// A decoder-only language model: an embedding, a row of blocks, an output layer. A family (GPT-2, Llama) says which
// parameters there are and what a block computes; everything else is here: training passes, evaluation, the cut into
// stages, bf16 copies, initial values.

#include <causeway/autograd/checkpoint.hpp>
#include <causeway/autograd/ops.hpp>
#include <causeway/autograd/tape.hpp>
#include <causeway/config/config.hpp>
#include <causeway/core/error.hpp>
#include <causeway/core/hash.hpp>
#include <causeway/core/result.hpp>
#include <causeway/kernels/backend.hpp>
#include <causeway/kernels/gemm.hpp>
#include <causeway/nn/declaration.hpp>
#include <causeway/nn/key_value_cache.hpp>
#include <causeway/nn/memory_estimate.hpp>
#include <causeway/nn/micro_batch.hpp>
#include <causeway/nn/model_engine.hpp>
#include <causeway/nn/model_part.hpp>
#include <causeway/nn/options.hpp>
#include <causeway/nn/pass.hpp>
#include <causeway/tensor/buffer_pool.hpp>
#include <causeway/tensor/parameters.hpp>
#include <causeway/tensor/tensor.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <utility>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace nn {

/// See the head of this file. Movable; one thread at a time.
template <class Family, class BackendType = kernels::cpu_backend>
  requires kernels::Backend<BackendType>
class language_model {
 public:
  using options_type = typename Family::options_type;
  using backend_type = BackendType;
  using tape_type = autograd::tape<BackendType>;

  /// Checks the options, reserves parameters and gradients (8 bytes per parameter, 10 in bf16 mode) and initialises them
  /// with seed 0. With a `part`, the model has only the parameters of these blocks: it computes stages, not losses of its
  /// own. Errors say which option is wrong and what would work.
  [[nodiscard]] static result<language_model> create(const options_type& options, BackendType backend = BackendType{},
                                                     model_part part = {}) {
    CAUSEWAY_TRY(Family::validate(options));
    CAUSEWAY_TRY(part.check(options.layers + (options.joined_ends ? 1 : 0)));
    try {
      language_model model{options, std::move(backend), std::move(part)};
      model.initialize(0);
      return result<language_model>{std::move(model)};
    } catch (const std::bad_alloc&) {
      return fail(errc::out_of_memory, std::string{Family::name},
                  "no memory for the parameters: reduce layers, width or vocabulary");
    }
  }

  [[nodiscard]] const options_type& options() const noexcept { return family().options(); }
  [[nodiscard]] std::int64_t context_length() const noexcept { return options().context; }
  [[nodiscard]] std::int64_t vocabulary() const noexcept { return options().vocabulary; }
  [[nodiscard]] std::int64_t width() const noexcept { return options().width; }
  [[nodiscard]] std::int64_t blocks() const noexcept { return options().layers + (joined_ends() ? 1 : 0); }
  /// Embedding and output layer are one block, the first.
  [[nodiscard]] bool joined_ends() const noexcept { return options().joined_ends; }
  [[nodiscard]] const model_part& part() const noexcept { return engine_->part; }  ///< what of the model is here
  /// The segment of a token table that is the output layer too, in another block; `not_held` where there is none here.
  [[nodiscard]] std::size_t tied_table() const noexcept { return family().tied(); }
  [[nodiscard]] bool shares_table() const noexcept { return options().tie && !joined_ends(); }  ///< if it has one at all
  /// The segments of the embedding; `not_held` where the model has none here.
  [[nodiscard]] embedding_tables embedding() const noexcept { return family().embedding(); }
  /// The share of values dropped in training, after the embedding and of what blocks add.
  [[nodiscard]] float dropout() const noexcept { return family().dropout(); }
  [[nodiscard]] parameter_store& parameters() noexcept { return store(); }
  [[nodiscard]] BackendType& backend() noexcept { return engine_->backend; }
  /// Passes that were not run but started again from a recording; none with most backends (nn/recorded_passes.hpp).
  [[nodiscard]] std::uint64_t replayed_passes() const noexcept { return engine_->recorded.replays(); }
  /// The pool that activations come from, for its statistics.
  [[nodiscard]] buffer_pool& activation_memory() noexcept { return engine_->memory; }

  /// Equal on peers whose parameters mean the same: family, shape, vocabulary, tie and what else changes the function.
  /// Threads, precision, recomputation and which part is held do not matter.
  [[nodiscard]] std::uint64_t config_hash() const {
    hasher h;
    h.add_value(hash_text(Family::name));
    family().hash_into(h);
    return h.add_value(declared_parameters().layout_hash()).finish();
  }

  /// The tensors of the model, or of a part of it, held or not, without memory for them.
  [[nodiscard]] parameter_store declared_parameters(const model_part& part = {}) const {
    parameter_store all;
    const Family declared{options(), all, part};
    return all;
  }

  /// Values of a block in flat buffers, padding counted, with what stands before the first and behind the last one; held or
  /// not.
  [[nodiscard]] std::int64_t block_length(std::int64_t block) const {
    return declared_parameters(model_part{block_range{block, block + 1}}).length();
  }

  /// Fresh parameters, a function of (seed, segment, row): the same on every machine and for any number of threads.
  void initialize(std::uint64_t seed) {
    engine_->seed = seed;
    engine_->begin(store(), family());
    store().touch();
  }

  /// From now on a run begins with what `adjust` makes of fresh parameters: those that are here, and those of parts that
  /// are held later. It must make the same of a segment whatever else is in the store, on every peer.
  void adjust_initial(std::function<void(thread_pool&, parameter_store&)> adjust) {
    adjust(backend().pool(), store());
    engine_->adjust = std::move(adjust);
    store().touch();
  }

  /// What the embedding tables began with, held here or not. Time and memory: those of the tables, and of the
  /// output layer where that is another one.
  [[nodiscard]] embedding_values initial_embedding() const { return engine_->initial_embedding(); }

  /// From now on this is another part of the model. Parameters that were here stay as they are, others start as
  /// `initialize` left them, gradients are zero. No tape may be under way. Both parts are in memory at once; on an error
  /// all is as it was.
  [[nodiscard]] result<void> hold(model_part part) {
    CAUSEWAY_TRY(part.check(blocks()));
    try {
      engine_->hold(std::move(part));
      return {};
    } catch (const std::bad_alloc&) {
      return fail(errc::out_of_memory, std::string{Family::name},
                  "no memory for another part of the model beside this one");
    }
  }

  /// Adds the gradient of grad_scale · Σ loss to `parameters().gradients()` and returns Σ loss over the tokens.
  /// inputs and targets hold batch·T tokens, sequence after sequence, T at most the context length. The same
  /// dropout_stream gives the same masks.
  [[nodiscard]] result<double> forward_backward(std::span<const std::int32_t> inputs, std::span<const std::int32_t> targets,
                                                std::int64_t batch, float grad_scale, std::uint64_t dropout_stream) {
    CAUSEWAY_TRY(check_whole());
    const micro_batch b{inputs, targets, batch, grad_scale, dropout_stream};
    CAUSEWAY_TRY(check_stage(b, {0, blocks()}, {}));
    refresh();
    return engine_->recorded.run(b, engine_->tape, [this](tape_type& t, const micro_batch& m) -> result<double> {
      CAUSEWAY_ASSIGN(const stage_pass all, forward_stage(t, {0, blocks()}, m));
      CAUSEWAY_TRY(backward_stage(t, all));
      return all.loss;
    });
  }

  /// Σ loss over the tokens; no gradients, no dropout.
  [[nodiscard]] result<double> evaluate(std::span<const std::int32_t> inputs, std::span<const std::int32_t> targets,
                                        std::int64_t batch) {
    CAUSEWAY_TRY(check_whole());
    const micro_batch b{inputs, targets, batch, 0.0F, 0};
    CAUSEWAY_ASSIGN(const stage_pass all, forward_stage(engine_->tape, {0, blocks()}, b, {}, pass_kind::evaluation));
    return all.loss;
  }

  /// What the last block makes of these tokens, [batch·T, width] f32, without dropout: features of a text.
  [[nodiscard]] result<tensor> hidden_states(std::span<const std::int32_t> tokens, std::int64_t batch) {
    CAUSEWAY_TRY(check_whole());
    const micro_batch b{tokens, {}, batch, 0.0F, 0};
    CAUSEWAY_TRY(check_inputs(limits(), b));
    tensor hidden;
    CAUSEWAY_TRY(guarded(engine_->tape, false, [&] {
      const auto p = prepare(b, false);
      auto& t = engine_->tape;
      hidden = run_blocks(t, p, {0, options().layers}, family().embed(t, p, tokens)).value;
    }));
    return hidden;
  }

  /// Scores of the token that follows `tokens` (1 to context length of them) into `out`, one for each of the vocabulary.
  [[nodiscard]] result<void> next_token_logits(std::span<const std::int32_t> tokens, std::span<float> out) {
    return logits_after(tokens, out, nullptr);
  }

  /// The same for a text of which `past` has seen all but `tokens`, which are at most as many as fit in the context behind
  /// it. Costs a forward pass of these alone: several at once at the beginning of a text, then one by one. Up to rounding,
  /// the scores are those of the whole text. Start with `make_cache()`.
  [[nodiscard]] result<void> next_token_logits(std::span<const std::int32_t> tokens, std::span<float> out,
                                               key_value_cache& past) requires kernels::computes_on_host<BackendType> {
    if (past.context() - past.length() < static_cast<std::int64_t>(tokens.size())) {
      return fail(errc::invalid_argument, std::string{Family::name} + " cache",
                  std::to_string(past.length()) + " tokens and " + std::to_string(tokens.size()) +
                      " more; the context has room for " + std::to_string(past.context()) +
                      ". Clear it, and give the newest tokens again");
    }
    while (past.length() > 0 && tokens.size() > 1) {
      CAUSEWAY_TRY(logits_after(tokens.first(1), out, &past));
      tokens = tokens.subspan(1);
    }
    return logits_after(tokens, out, &past);
  }
  [[nodiscard]] key_value_cache make_cache() const { return {options().layers, context_length()}; }

  /// A tape of its own for a micro-batch that waits between forward and backward, as in a pipeline. Must not outlive the
  /// model.
  [[nodiscard]] tape_type make_tape() { return tape_type{engine_->backend, engine_->memory}; }

  /// The forward pass through blocks `r`. `boundary` is the output of the stage before, [batch·T, width] f32, and must stay
  /// valid until `backward_stage`; it is ignored in the first stage. The first stage reads b.inputs, the last b.targets;
  /// all need their number. With joined ends block 0 is a stage of its own, which embeds tokens without a boundary, and
  /// gives the loss of one. With pass_kind::forgetful nothing is kept for a backward: the activations are computed again by
  /// a second, recorded pass. Cost: what the blocks compute; the boundary is 4·batch·T·width bytes.
  [[nodiscard]] result<stage_pass> forward_stage(tape_type& t, block_range r, const micro_batch& b, tensor boundary = {},
                                                 pass_kind kind = pass_kind::recorded) {
    CAUSEWAY_TRY(check_stage(b, r, boundary));
    const stage_way way = way_of(r, boundary);
    stage_pass s;
    CAUSEWAY_TRY(guarded(t, kind == pass_kind::recorded, [&] {
      const auto p = prepare(b, kind != pass_kind::evaluation);
      if (!way.embeds) s.input = t.leaf(std::move(boundary));
      autograd::variable x = way.embeds ? family().embed(t, p, b.inputs) : s.input;
      x = run_blocks(t, p, way.layers, std::move(x));
      if (way.ends) {
        s.loss = loss_of(t, p, x, b);
      } else {
        s.output = std::move(x);
      }
    }));
    return s;
  }

  /// The backward pass of `forward_stage`: adds to the parameters' gradients and returns the gradient of the stage's input,
  /// empty in the first stage. `d_output` is what the next stage returned; empty in the last stage. Clears the tape.
  [[nodiscard]] result<tensor> backward_stage(tape_type& t, const stage_pass& s, tensor d_output = {}) {
    CAUSEWAY_ASSIGN(tensor d_input, input_gradient(t, s, std::move(d_output)));
    t.clear();
    return d_input;
  }

  /// The first half of `backward_stage`: the same, but the gradients of the blocks' matrices are put off until
  /// `backward_weights`; until then their operands stay in memory. Norms, biases, embedding and output layer, whose
  /// gradients cost little or come with the loss, are not put off.
  [[nodiscard]] result<tensor> backward_inputs(tape_type& t, const stage_pass& s, tensor d_output = {}) {
    t.defer_weights(true);
    return input_gradient(t, s, std::move(d_output));
  }
  /// The second half. Clears the tape.
  [[nodiscard]] result<void> backward_weights(tape_type& t) {
    CAUSEWAY_TRY(guarded(t, false, [&] { t.run_deferred(); }));
    t.clear();
    return {};
  }

  /// Bytes that training with micro-batches of `batch` full contexts needs, without optimizer state.
  [[nodiscard]] nn::memory_estimate memory_estimate(std::int64_t batch) const noexcept {
    const auto& o = options();
    model_sizes s;
    s.rows = batch * o.context, s.width = o.width, s.layers = o.layers, s.vocabulary = o.vocabulary;
    s.parameters = store().length();
    s.low = o.precision.type() == dtype::bf16, s.recompute = o.recompute;
    return estimate_memory(s, family().activations(s.rows, s.low ? 2 : 4));
  }

 private:
  language_model(const options_type& options, BackendType backend, model_part part)
      : engine_{std::make_unique<detail::model_engine<Family, BackendType>>(options, std::move(backend), std::move(part))} {
  }

  [[nodiscard]] const Family& family() const noexcept { return engine_->family; }
  [[nodiscard]] parameter_store& store() const noexcept { return engine_->store; }

  [[nodiscard]] pass<BackendType> prepare(const micro_batch& b, bool training) {
    refresh();
    const std::int64_t T = static_cast<std::int64_t>(b.inputs.size()) / b.batch;
    return {&store(), engine_->low.data(), b.batch, T, b.dropout_stream, training ? family().dropout() : 0.0F};
  }

  [[nodiscard]] stage_way way_of(const block_range& r, const tensor& boundary) const noexcept {
    return stage_way::of(r, blocks(), joined_ends(), static_cast<bool>(boundary));
  }

  [[nodiscard]] autograd::variable run_blocks(tape_type& t, const pass<BackendType>& p, block_range r,
                                              autograd::variable x) {
    for (auto i = static_cast<std::size_t>(r.first); i < static_cast<std::size_t>(r.last); ++i) {
      const auto block = [f = &family(), p, i](tape_type& on, const autograd::variable& v) {
        return f->block(on, p, i, v);
      };
      x = options().recompute ? autograd::checkpoint(t, x, block) : block(t, x);
    }
    return x;
  }

  [[nodiscard]] double loss_of(tape_type& t, const pass<BackendType>& p, const autograd::variable& x,
                               const micro_batch& b) {
    return autograd::cross_entropy(t, family().finish(t, p, x), p[family().head()], b.targets, b.grad_scale);
  }

  [[nodiscard]] result<void> logits_after(std::span<const std::int32_t> tokens, std::span<float> out,
                                          key_value_cache* past) {
    CAUSEWAY_TRY(check_whole());
    const micro_batch b{tokens, {}, 1, 0.0F, 0};
    CAUSEWAY_TRY(check_inputs(limits(), b));
    if (static_cast<std::int64_t>(out.size()) != vocabulary()) {
      return fail(errc::invalid_argument, std::string{Family::name} + " logits",
                  "room for " + std::to_string(out.size()) + " numbers; it must be the vocabulary, " +
                      std::to_string(vocabulary()));
    }
    tape_type& t = engine_->tape;
    tensor logits;
    CAUSEWAY_TRY(guarded(t, false, [&] {
      auto p = prepare(b, false);
      p.past = past;
      const auto x = run_blocks(t, p, {0, options().layers}, family().embed(t, p, tokens));
      const tensor last = tensor::borrow(x.value.template data<float>() + (p.T - 1) * width(), {1, width()});
      logits = logits_of(t, p, family().finish(t, p, {last}).value);
    }));
    std::copy_n(logits.data<float>(), vocabulary(), out.data());
    if (past != nullptr) past->advance(static_cast<std::int64_t>(tokens.size()));
    return {};
  }

  [[nodiscard]] tensor logits_of(tape_type& t, const pass<BackendType>& p, const tensor& x) {
    tensor y = t.make(dtype::f32, {1, vocabulary()});
    autograd::detail::with_activation_type(x.type(), [&]<class Act>() {
      kernels::gemm_args<Act, float> args;
      args.transpose_b = true;
      args.m = 1, args.n = vocabulary(), args.k = width();
      args.a = x.template data<Act>(), args.lda = args.k;
      args.b = p[family().head()].template data<Act>(), args.ldb = args.k;
      args.c = y.template data<float>(), args.ldc = args.n;
      backend().ops().multiply(args);
    });
    return y;
  }

  void refresh() { engine_->refresh(); }

  template <class F>
  [[nodiscard]] result<void> guarded(tape_type& t, bool recording, F&& f) {
    try {
      const autograd::recording_scope scope{t, recording};
      f();
      auto done = backend().finish();  // from here on the host may read what was computed
      if (!done) {
        t.clear();
        engine_->seen_version = 0;  // the copies that products read may not have been made
      }
      return done;
    } catch (const std::bad_alloc&) {
      t.clear();
      return fail(errc::out_of_memory, std::string{Family::name},
                  "no memory for the activations: use a smaller micro-batch, or recompute = true");
    }
  }

  [[nodiscard]] result<tensor> input_gradient(tape_type& t, const stage_pass& s, tensor d_output) {
    tensor d_input;
    refresh();  // parameters may be others than in the forward, where several micro-batches are on their way
    CAUSEWAY_TRY(guarded(t, true, [&] {
      if (d_output) t.contribute(s.output.slot, std::move(d_output));
      t.backward();
      d_input = t.take(s.input.slot);
    }));
    return d_input;
  }

  [[nodiscard]] token_limits limits() const noexcept { return {Family::name, context_length(), vocabulary()}; }

  [[nodiscard]] result<void> check_whole() const {
    if (part().is_whole(blocks())) return {};
    return fail(errc::invalid_argument, std::string{Family::name},
                "this peer holds a part of the model: only its stages can compute; train it with parallel::pipeline, or "
                "build the model without a part");
  }

  [[nodiscard]] result<void> check_stage(const micro_batch& b, block_range r, const tensor& boundary) const {
    CAUSEWAY_EXPECT(r.first >= 0 && r.first < r.last && r.last <= blocks() && part().holds(r));
    CAUSEWAY_EXPECT(part().holds_parameters(r.first - 1, blocks()) || r.first > 0);
    CAUSEWAY_EXPECT(part().holds_parameters(r.last, blocks()) || r.last < blocks());
    if (joined_ends() && r.first == 0 && r.last > 1 && r.last < blocks()) {
      return fail(errc::unsupported, std::string{Family::name},
                  "joined ends are a stage of their own, as in stage::recovery::swapped_neighbours; build it without them");
    }
    CAUSEWAY_TRY(check_inputs(limits(), b));
    const stage_way way = way_of(r, boundary);
    if (way.ends) CAUSEWAY_TRY(check_targets(limits(), b));
    if (!way.embeds) CAUSEWAY_TRY(check_boundary(limits(), b, boundary, width()));
    return {};
  }

  std::unique_ptr<detail::model_engine<Family, BackendType>> engine_;
};

}}}  // namespace causeway::CAUSEWAY_ABI::nn

#endif  // CAUSEWAY_NN_LANGUAGE_MODEL_HPP
