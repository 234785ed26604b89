// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PARALLEL_SERVING_TUNED_MODEL_HPP
#define CAUSEWAY_PARALLEL_SERVING_TUNED_MODEL_HPP

// A pre-trained model whose blocks are served by others, fine-tuned by prompts or adapters (Petals: Borzunov et al., 2022).
// Embedding and output layer are here and frozen; what is trained is this model's parameters, for a trainer and any policy:
// rows in front of every sequence, rows added to them before each block, and low-rank maps beside the blocks' own (LoRA: Hu
// et al., 2021). No server knows of them between two requests.

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
#include <causeway/nn/gpt.hpp>
#include <causeway/nn/micro_batch.hpp>
#include <causeway/nn/model_part.hpp>
#include <causeway/nn/options.hpp>
#include <causeway/nn/pass.hpp>
#include <causeway/parallel/remote_pass.hpp>
#include <causeway/parallel/serving/block_client.hpp>
#include <causeway/parallel/serving/tuned_parameters.hpp>
#include <causeway/stage/activation.hpp>
#include <causeway/stage/frozen_blocks.hpp>
#include <causeway/tensor/buffer_pool.hpp>
#include <causeway/tensor/parameters.hpp>
#include <causeway/tensor/tensor.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace parallel {

/// Models train's Model, f32, no dropout. One thread at a time. A step waits for all blocks twice, there and back; its
/// batch goes in pieces that several servers compute at once. Memory: what went into each hop, encoded; beside parameters
/// and gradients twice what is trained in the blocks, and once more for each piece on its way back.
template <class Family = nn::gpt_family, stage::ActivationCodec Codec = stage::plain>
class tuned_model {
 public:
  using options_type = typename Family::options_type;
  using backend_type = kernels::cpu_backend;
  using client_type = block_client<Codec>;

  /// `source` gives embedding and output layer. errc::invalid_argument for sizes that cannot work.
  static result<tuned_model> create(const options_type& model, const tuning_options& tuning,
                                    const stage::parameter_source& source, std::shared_ptr<net::fabric> fabric,
                                    block_client_options client, Codec codec = Codec{}, log_sink log = {},
                                    backend_type backend = backend_type{}) {
    CAUSEWAY_TRY(Family::validate(model));
    if (model.precision != nn::precision::f32 || !fabric) {
      return fail(errc::invalid_argument, "tuned_model", "it needs a fabric, and the precision f32");
    }
    const span_model served{stage::family_agreement<Family>(model), model.layers, model.width, Family::maps(model)};
    CAUSEWAY_ASSIGN(tuned_parameters trained, tuned_parameters::create(tuning, served, model.context));
    tuned_model made{model, std::move(trained), std::move(backend)};
    CAUSEWAY_TRY(source(made.engine_->frozen));
    made.engine_->client =
        std::make_unique<client_type>(std::move(fabric), std::move(client), served, std::move(codec), std::move(log));
    made.initialize(0);
    return result<tuned_model>{std::move(made)};
  }

  /// What is trained, and nothing else.
  [[nodiscard]] parameter_store& parameters() noexcept { return engine_->trained.store(); }
  [[nodiscard]] backend_type& backend() noexcept { return engine_->backend; }
  [[nodiscard]] client_type& client() noexcept { return *engine_->client; }

  [[nodiscard]] std::uint64_t config_hash() const {
    hasher h;
    h.add_value(hash_text("tuned_model")).add_value(stage::family_agreement<Family>(engine_->options));
    return h.add_value(engine_->trained.hash()).finish();
  }

  /// Fresh, a function of the seed. With adapters alone the model is then the frozen one.
  void initialize(std::uint64_t seed) { engine_->trained.initialize(engine_->backend.pool(), seed); }

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
    engine(const options_type& o, tuned_parameters p, backend_type b)
        : options{o}, trained{std::move(p)}, backend{std::move(b)}, family{o, frozen, nn::model_part::ends()} {
      frozen.allocate_values();
    }

    options_type options;
    tuned_parameters trained;
    backend_type backend;
    parameter_store frozen;
    Family family;
    std::unique_ptr<client_type> client;
    std::vector<float> tuned;  // of all blocks, as servers get it, in the pass under way
    buffer_pool memory;
    tape_type tape{backend, memory};
    std::optional<error> failed;  // the client's, in the pass under way
  };

  tuned_model(const options_type& o, tuned_parameters trained, backend_type backend)
      : engine_{std::make_unique<engine>(o, std::move(trained), std::move(backend))} {}

  result<double> run(const nn::micro_batch& b, bool training) {
    engine& e = *engine_;
    const nn::token_limits limits{"tuned_model", e.options.context - e.trained.rows(), e.options.vocabulary};
    return run_remote_pass(limits, b, e.tape, e.failed, training, [&] { return pass(b, training); });
  }

  double pass(const nn::micro_batch& b, bool training) {
    engine& e = *engine_;
    tape_type& t = e.tape;
    const std::int64_t T = static_cast<std::int64_t>(b.inputs.size()) / b.batch, front = e.trained.rows();
    const nn::pass<backend_type> p{&e.frozen, nullptr, b.batch, T, 0, 0.0F};
    t.recording(false);
    auto x = e.family.embed(t, p, b.inputs);
    t.recording(training);
    if (front > 0) x = autograd::prepend_prompts(t, x, e.trained.front(), b.batch);
    auto y = remote(x, b.batch, front + T);
    if (e.failed) return 0;
    if (front > 0) y = autograd::drop_prompts(t, y, front, b.batch);
    return autograd::cross_entropy(t, e.family.finish(t, p, y), p[e.family.head()], b.targets, b.grad_scale);
  }

  /// All blocks. The client's failure is kept: a tape cannot tell of it.
  [[nodiscard]] autograd::variable remote(const autograd::variable& x, std::int64_t sequences, std::int64_t tokens) {
    engine& e = *engine_;
    e.trained.gather(e.tuned);
    const block_batch batch{sequences, tokens, e.trained.tuning(), e.tuned};
    tensor y = e.tape.make(dtype::f32, x.value.shape());
    auto passed = e.client->forward(e.backend.pool(), batch, x.value.span<float>(), y.span<float>());
    if (!passed) {
      e.failed = passed.error();
      return {std::move(y)};
    }
    auto kept = std::make_unique<pass_type>(std::move(*passed));
    return e.tape.result(std::move(y), [&e, slot = x.slot, kept = std::move(kept)](tape_type& on, const tensor& dy) {
      tensor dx = on.make(dtype::f32, dy.shape());
      std::vector<float> d_tuned(e.tuned.size());
      const auto done = e.client->backward(on.backend().pool(), *kept, dy.span<float>(), dx.span<float>(), d_tuned);
      if (!done) {
        e.failed = done.error();
      } else {
        e.trained.add_gradients(d_tuned);
        on.contribute(slot, std::move(dx));
      }
    });
  }

  std::unique_ptr<engine> engine_;
};

}}}  // namespace causeway::CAUSEWAY_ABI::parallel

#endif  // CAUSEWAY_PARALLEL_SERVING_TUNED_MODEL_HPP
