// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PARALLEL_SWARM_HPP
#define CAUSEWAY_PARALLEL_SWARM_HPP

// A model cut into stages, each served by several peers with the same weights, which come and go: every micro-batch takes
// its own path, and what a lost peer had is computed by another of its stage.

#include <causeway/config/config.hpp>
#include <causeway/core/error.hpp>
#include <causeway/core/result.hpp>
#include <causeway/nn/micro_batch.hpp>
#include <causeway/nn/model_part.hpp>
#include <causeway/parallel/stage_model.hpp>
#include <causeway/parallel/swarm_options.hpp>
#include <causeway/policy/concepts.hpp>
#include <causeway/tensor/batch.hpp>
#include <causeway/tensor/tensor.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace causeway::inline CAUSEWAY_ABI::parallel {

namespace detail {

/// The stage that a context's model holds, over one batch.
template <class Context>
class stage_computer final : public swarm_computer {
 public:
  stage_computer(Context& ctx, const batch& whole, std::int64_t micro_batches)
      : ctx_{ctx},
        whole_{whole},
        sequences_{whole.sequences / micro_batches},
        range_{ctx.model().part().ranges(ctx.model().blocks()).front()} {}

  result<boundary_values> forward(std::uint32_t m, const boundary_values& input) override {
    const batch piece = whole_.slice(m * sequences_, sequences_);
    const float scale = 1.0F / static_cast<float>(whole_.tokens());
    const nn::micro_batch b{piece.inputs, piece.targets, sequences_, scale, mix(ctx_.step(), m, 0x737761726D)};
    unit& u = units_.insert_or_assign(m, unit{ctx_.model().make_tape(), {}}).first->second;
    tensor boundary = input ? to_tensor(u.tape, *input) : tensor{};
    CAUSEWAY_ASSIGN(u.pass, ctx_.model().forward_stage(u.tape, range_, b, std::move(boundary), nn::pass_kind::recorded));
    if (!u.pass.output.value) return boundary_values{};
    boundary_values out = to_values(u.pass.output.value);
    u.pass.output.value.reset();
    return out;
  }

  result<swarm_gradient> backward(std::uint32_t m, const boundary_values& d_output) override {
    unit& u = units_.at(m);
    tensor d = d_output ? to_tensor(u.tape, *d_output) : tensor{};
    CAUSEWAY_ASSIGN(const tensor d_input, ctx_.model().backward_stage(u.tape, u.pass, std::move(d)));
    swarm_gradient back{u.pass.loss, d_input ? to_values(d_input) : boundary_values{}};
    u.tape.clear();
    units_.erase(m);
    return back;
  }

  [[nodiscard]] std::span<float> gradients() override { return ctx_.gradients(); }
  [[nodiscard]] double squares() override {
    const double norm = ctx_.own_norm();
    return norm * norm;
  }
  [[nodiscard]] std::size_t boundary() const override {
    return static_cast<std::size_t>(whole_.length() * sequences_ * ctx_.model().width());
  }

 private:
  using tape_type = typename std::remove_cvref_t<decltype(std::declval<Context&>().model())>::tape_type;
  struct unit {
    tape_type tape;
    nn::stage_pass pass;
  };

  tensor to_tensor(tape_type& tape, const std::vector<float>& values) {
    tensor t = tape.make(dtype::f32, {whole_.length() * sequences_, ctx_.model().width()});
    std::copy(values.begin(), values.end(), t.span<float>().begin());
    return t;
  }
  static boundary_values to_values(const tensor& t) {
    const auto values = t.span<float>();
    return std::make_shared<const std::vector<float>>(values.begin(), values.end());
  }

  Context& ctx_;
  const batch& whole_;
  std::int64_t sequences_;
  nn::block_range range_;
  std::map<std::uint32_t, unit> units_;
};

}  // namespace detail

/// SWARM (Ryabinin et al., ICML 2023), synchronous: the gradient of a step is that of the mean loss over the global batch,
/// whoever computed which part of it and whoever was lost. Every peer of every stage is given the same global batch (the
/// first stage reads the inputs, the last the targets), as a function of trainer.context().step(). Needs an environment
/// whose group is a train::swarm_group over the same swarm_round, fault::quorum and a communication policy of global steps.
///
/// Bytes per micro-batch and boundary: 4 · tokens · width forth and as many back, straight between the two peers.
/// Memory: activations of the micro-batches under way; outputs and input gradients of all of the peer's in the step; the
/// gradient twice more.
class swarm {
 public:
  static constexpr std::string_view name = "swarm";
  static constexpr parallel_traits traits{.staged = true, .reroutes = true, .global_step = true, .shares_gradient = true};
  static constexpr std::uint32_t state_version = 1;

  explicit swarm(std::shared_ptr<swarm_round> peer = nullptr) : peer_{std::move(peer)} {}

  result<void> start(auto& ctx) {
    static_assert(StageModel<std::remove_cvref_t<decltype(ctx.model())>>,
                  "causeway-P5: a swarm needs a model that can be cut into stages, such as nn::gpt or nn::llama. "
                  "docs/reference/rules.md#p5");
    if (peer_ == nullptr || !ctx.elastic()) {
      return fail(errc::invalid_argument, "swarm",
                  "it needs its peer and a membership; make a swarm_peer, and a swarm_group for environment::group");
    }
    const swarm_options& o = peer_->options();
    if (o.stages < 1 || o.stages > swarm_wire::most_stages || o.stage >= o.stages || o.micro_batches < 1 ||
        o.micro_batches > swarm_wire::most_micro_batches) {
      return fail(errc::invalid_argument, "swarm", "stage, stages or micro_batches is out of range");
    }
    const auto ranges = ctx.model().part().ranges(ctx.model().blocks());
    if (ranges.size() != 1 || (ranges[0].first == 0) != (o.stage == 0) ||
        (ranges[0].last == ctx.model().blocks()) != (o.stage + 1 == o.stages)) {
      return fail(errc::invalid_argument, "swarm", "the model's part is not that of stage " + std::to_string(o.stage));
    }
    if (o.stages > 1 && ctx.model().tied_table() != nn::not_held) {
      return fail(errc::unsupported, "swarm",
                  "first and last stage would share a table, and peers of two stages would have to agree on it; build the "
                  "model with untied embeddings");
    }
    peer_->open();
    return {};
  }

  result<double> forward_backward(auto& ctx, const batch& b) {
    const std::int64_t n = peer_->options().micro_batches;
    if (b.sequences == 0 || b.sequences % n != 0) {
      return fail(errc::invalid_argument, "swarm",
                  "a batch of " + std::to_string(b.sequences) + " sequences cannot be cut into " + std::to_string(n) +
                      " equal micro-batches; choose a divisor");
    }
    using context_type = std::remove_cvref_t<decltype(ctx)>;
    whole_ = std::make_shared<batch>(b);
    computer_ = std::make_shared<detail::stage_computer<context_type>>(ctx, *whole_, n);
    CAUSEWAY_ASSIGN(const double sum, peer_->run(ctx.step(), *computer_));
    return sum / static_cast<double>(b.tokens());
  }

  /// Of the whole model, as the membership agreed on it.
  result<float> norm(auto&) { return peer_->norm(); }
  result<void> after_step(auto&) { return {}; }

  result<double> evaluate(auto&, const batch&) {
    return fail(errc::unsupported, "swarm", "it does not evaluate; load a checkpoint of all stages into a whole model");
  }

  void serialize(auto&) {}

 private:
  std::shared_ptr<swarm_round> peer_;
  std::shared_ptr<batch> whole_;
  std::shared_ptr<swarm_computer> computer_;
};
static_assert(ParallelismPolicy<swarm>);

}  // namespace causeway::inline CAUSEWAY_ABI::parallel

#endif  // CAUSEWAY_PARALLEL_SWARM_HPP
