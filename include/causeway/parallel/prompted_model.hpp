// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PARALLEL_PROMPTED_MODEL_HPP
#define CAUSEWAY_PARALLEL_PROMPTED_MODEL_HPP

// A pre-trained model whose blocks are served by others, fine-tuned by prompts (Petals: Borzunov et al., 2022). Embedding
// and output layer are here and frozen; what is trained, rows in front of every sequence and rows added to them before each
// block, are this model's parameters, for a trainer and any policy. No server knows of them between two requests.

#include <causeway/autograd/ops.hpp>
#include <causeway/autograd/prompts.hpp>
#include <causeway/autograd/tape.hpp>
#include <causeway/config/config.hpp>
#include <causeway/core/error.hpp>
#include <causeway/core/hash.hpp>
#include <causeway/core/metrics.hpp>
#include <causeway/core/result.hpp>
#include <causeway/kernels/backend.hpp>
#include <causeway/net/fabric.hpp>
#include <causeway/nn/declaration.hpp>
#include <causeway/nn/gpt.hpp>
#include <causeway/nn/micro_batch.hpp>
#include <causeway/nn/model_part.hpp>
#include <causeway/nn/options.hpp>
#include <causeway/nn/pass.hpp>
#include <causeway/parallel/block_client.hpp>
#include <causeway/stage/activation.hpp>
#include <causeway/stage/frozen_blocks.hpp>
#include <causeway/tensor/buffer_pool.hpp>
#include <causeway/tensor/parameters.hpp>
#include <causeway/tensor/tensor.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace causeway::inline CAUSEWAY_ABI::parallel {

struct prompt_options {
  std::int64_t rows = 16;  ///< in front of every sequence; they and its tokens fit the model's context
  bool deep = true;        ///< rows of their own before every block, which begin as zeros
};

/// Models train's Model, f32, no dropout. One thread at a time. A step waits for all blocks twice, there and back; its
/// batch goes in pieces that several servers compute at once. Memory: what went into each hop, encoded.
template <class Family = nn::gpt_family, stage::ActivationCodec Codec = stage::plain>
class prompted_model {
 public:
  using family_type = Family;
  using options_type = typename Family::options_type;
  using backend_type = kernels::cpu_backend;
  using client_type = block_client<Codec>;

  /// `source` gives embedding and output layer. errc::invalid_argument for sizes that cannot work.
  static result<prompted_model> create(const options_type& model, const prompt_options& prompts,
                                       const stage::parameter_source& source, std::shared_ptr<net::fabric> fabric,
                                       block_client_options client, Codec codec = Codec{}, log_sink log = {},
                                       backend_type backend = backend_type{}) {
    CAUSEWAY_TRY(Family::validate(model));
    if (model.precision != nn::precision::f32 || prompts.rows < 1 || prompts.rows >= model.context || !fabric) {
      return fail(errc::invalid_argument, "prompted_model",
                  std::to_string(prompts.rows) + " rows of prompts in a context of " + std::to_string(model.context) +
                      "; there must be some and room for tokens, a fabric, and the precision is f32");
    }
    prompted_model made{model, prompts, std::move(backend)};
    CAUSEWAY_TRY(source(made.engine_->frozen));
    made.engine_->client =
        std::make_unique<client_type>(std::move(fabric), std::move(client), stage::family_agreement<Family>(model),
                                      model.layers, model.width, std::move(codec), std::move(log));
    made.initialize(0);
    return result<prompted_model>{std::move(made)};
  }

  /// The prompts.
  [[nodiscard]] parameter_store& parameters() noexcept { return engine_->trained; }
  [[nodiscard]] backend_type& backend() noexcept { return engine_->backend; }
  [[nodiscard]] client_type& client() noexcept { return *engine_->client; }

  [[nodiscard]] std::uint64_t config_hash() const {
    hasher h;
    h.add_value(hash_text("prompted_model")).add_value(stage::family_agreement<Family>(engine_->options));
    return h.add_value(engine_->trained.layout_hash()).finish();
  }

  /// Fresh prompts, a function of the seed: like embeddings of tokens, and zeros before the blocks.
  void initialize(std::uint64_t seed) {
    std::vector<nn::initial_distribution> initial{{0.0F, nn::initial_deviation, 0}};
    if (engine_->prompts.deep) initial.push_back({0.0F, 0.0F, 1});
    nn::fill_initial(engine_->backend.pool(), engine_->trained, initial, seed);
    engine_->trained.touch();
  }

  /// As nn::language_model; errors of block_client.
  result<double> forward_backward(std::span<const std::int32_t> inputs, std::span<const std::int32_t> targets,
                                  std::int64_t sequences, float scale, std::uint64_t) {
    return run({inputs, targets, sequences, scale, 0}, true);
  }
  result<double> evaluate(std::span<const std::int32_t> inputs, std::span<const std::int32_t> targets,
                          std::int64_t sequences) {
    return run({inputs, targets, sequences, 0.0F, 0}, false);
  }

 private:
  using tape_type = autograd::tape<backend_type>;
  using pass_type = typename client_type::pass;

  // Everything, in one place that stays when the model moves: the tape points into it.
  struct engine {
    engine(const options_type& o, const prompt_options& p, backend_type b)
        : options{o}, prompts{p}, backend{std::move(b)}, family{o, frozen, nn::model_part::ends()} {
      frozen.allocate_values();
      trained.add("prompts", parameter_kind::embedding, p.rows, o.width);
      if (p.deep) trained.add("deep_prompts", parameter_kind::embedding, o.layers * p.rows, o.width);
      trained.allocate();
    }
    [[nodiscard]] autograd::parameter input_prompts() {
      return {trained.value(0), nullptr, trained.gradient(0), prompts.rows, options.width};
    }
    [[nodiscard]] std::span<float> deep(float* first) const {
      return {first, prompts.deep ? static_cast<std::size_t>(options.layers * prompts.rows * options.width) : 0};
    }

    options_type options;
    prompt_options prompts;
    backend_type backend;
    parameter_store frozen, trained;
    Family family;
    std::unique_ptr<client_type> client;
    buffer_pool memory;
    tape_type tape{backend, memory};
    std::optional<error> failed;  // the client's, in the pass under way
  };

  prompted_model(const options_type& o, const prompt_options& p, backend_type backend)
      : engine_{std::make_unique<engine>(o, p, std::move(backend))} {}

  result<double> run(const nn::micro_batch& b, bool training) {
    engine& e = *engine_;
    const nn::token_limits limits{"prompted_model", e.options.context - e.prompts.rows, e.options.vocabulary};
    CAUSEWAY_TRY(nn::check_inputs(limits, b));
    CAUSEWAY_TRY(nn::check_targets(limits, b));
    e.failed.reset();
    double loss = 0;
    try {
      const autograd::recording_scope scope{e.tape, training};
      loss = pass(b, training);
      if (training && !e.failed) e.tape.backward();
    } catch (const std::bad_alloc&) {
      e.failed = fail(errc::out_of_memory, "prompted_model", "no memory for the activations: use a smaller micro-batch");
    }
    e.tape.clear();
    if (e.failed) return std::move(*e.failed);
    return loss;
  }

  double pass(const nn::micro_batch& b, bool training) {
    engine& e = *engine_;
    tape_type& t = e.tape;
    const std::int64_t T = static_cast<std::int64_t>(b.inputs.size()) / b.batch;
    const nn::pass<backend_type> p{&e.frozen, nullptr, b.batch, T, 0, 0.0F};
    t.recording(false);
    const auto tokens = e.family.embed(t, p, b.inputs);
    t.recording(training);
    const auto x = autograd::prepend_prompts(t, tokens, e.input_prompts(), b.batch);
    const auto y = remote(x, {b.batch, e.prompts.rows + T, e.prompts.deep ? e.prompts.rows : 0, {}});
    if (e.failed) return 0;
    const auto rows = autograd::drop_prompts(t, y, e.prompts.rows, b.batch);
    return autograd::cross_entropy(t, e.family.finish(t, p, rows), p[e.family.head()], b.targets, b.grad_scale);
  }

  /// All blocks. The client's failure is kept: a tape cannot tell of it.
  [[nodiscard]] autograd::variable remote(const autograd::variable& x, block_batch batch) {
    engine& e = *engine_;
    if (e.prompts.deep) batch.deep = e.deep(e.trained.value(1));
    tensor y = e.tape.make(dtype::f32, x.value.shape());
    auto passed = e.client->forward(e.backend.pool(), batch, x.value.span<float>(), y.span<float>());
    if (!passed) {
      e.failed = passed.error();
      return {std::move(y)};
    }
    auto kept = std::make_unique<pass_type>(std::move(*passed));
    return e.tape.result(std::move(y), [&e, slot = x.slot, kept = std::move(kept)](tape_type& on, const tensor& dy) {
      tensor dx = on.make(dtype::f32, dy.shape());
      const auto d_deep = e.prompts.deep ? e.deep(e.trained.gradient(1)) : std::span<float>{};
      const auto done = e.client->backward(on.backend().pool(), *kept, dy.span<float>(), dx.span<float>(), d_deep);
      if (!done) {
        e.failed = done.error();
      } else {
        on.contribute(slot, std::move(dx));
      }
    });
  }

  std::unique_ptr<engine> engine_;
};

}  // namespace causeway::inline CAUSEWAY_ABI::parallel

#endif  // CAUSEWAY_PARALLEL_PROMPTED_MODEL_HPP
