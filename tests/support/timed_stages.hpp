// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TESTS_SUPPORT_TIMED_STAGES_HPP
#define CAUSEWAY_TESTS_SUPPORT_TIMED_STAGES_HPP

// A model of blocks that take time and compute next to nothing: for pipelines on virtual time, and because it compiles at
// once. A block multiplies by 1 + its parameter / 8 and adds its index; the loss is half the square of what comes out. So
// gradients are exact, depend on every stage, and show which micro-batches went through.

#include <causeway/autograd/tape.hpp>
#include <causeway/autograd/variable.hpp>
#include <causeway/kernels/backend.hpp>
#include <causeway/nn/language_model.hpp>
#include <causeway/nn/micro_batch.hpp>
#include <causeway/nn/model_part.hpp>
#include <causeway/tensor/buffer_pool.hpp>
#include <causeway/tensor/parameters.hpp>
#include <causeway/train/model.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace support {

/// Seconds of one block and one micro-batch, and how they are spent; without `spend` nothing takes time.
struct block_seconds {
  double forward = 1;
  double input_gradient = 1;
  double weight_gradient = 1;
  std::function<void(double)> spend{};
};

class timed_stages {
 public:
  struct tape_type {
    causeway::buffer_pool* memory = nullptr;
    std::vector<causeway::tensor> inputs;  // of every block of the pass
    causeway::nn::block_range range;
    float scale = 0;
    std::vector<std::pair<std::size_t, float>> deferred;
    [[nodiscard]] causeway::tensor make(causeway::dtype type, causeway::tensor_shape shape) const {
      return causeway::tensor::make(*memory, type, shape);
    }
    void clear() {
      inputs.clear();
      deferred.clear();
    }
  };

  timed_stages(std::int64_t blocks, std::int64_t width, causeway::nn::model_part part, block_seconds seconds = {})
      : shared_{std::make_unique<shared>()},
        blocks_{blocks},
        width_{width},
        part_{std::move(part)},
        seconds_{std::move(seconds)} {
    declare();
  }

  causeway::parameter_store& parameters() { return store_; }
  [[nodiscard]] std::uint64_t config_hash() const { return static_cast<std::uint64_t>(blocks_ * 1000 + width_); }
  causeway::kernels::cpu_backend& backend() { return shared_->backend; }
  [[nodiscard]] std::int64_t blocks() const { return blocks_; }
  [[nodiscard]] std::int64_t width() const { return width_; }
  [[nodiscard]] const causeway::nn::model_part& part() const { return part_; }
  [[nodiscard]] std::size_t tied_table() const { return causeway::nn::not_held; }
  [[nodiscard]] bool shares_table() const { return false; }
  [[nodiscard]] bool joined_ends() const { return false; }
  [[nodiscard]] causeway::parameter_store declared_parameters() const {
    causeway::parameter_store all;
    for (std::int64_t b = 0; b < blocks_; ++b) declare(all, b);
    return all;
  }
  [[nodiscard]] std::int64_t block_length(std::int64_t) const {
    causeway::parameter_store alone;
    alone.add("block", causeway::parameter_kind::vector, 1, 1, 0);
    return alone.length();
  }
  causeway::result<void> hold(causeway::nn::model_part part) {
    const std::vector<std::size_t> before = std::move(at_);
    causeway::parameter_store old = std::exchange(store_, {});
    part_ = std::move(part);
    at_.clear();
    declare();
    for (std::size_t b = 0; b < at_.size(); ++b) {
      if (at_[b] != causeway::nn::not_held && before[b] != causeway::nn::not_held)
        *store_.value(at_[b]) = *old.value(before[b]);
    }
    return {};
  }
  [[nodiscard]] tape_type make_tape() { return {&shared_->memory, {}, {}, 0, {}}; }

  causeway::result<causeway::nn::stage_pass> forward_stage(tape_type& t, causeway::nn::block_range r,
                                                           const causeway::nn::micro_batch& b, causeway::tensor boundary,
                                                           causeway::nn::pass_kind kind) {
    causeway::nn::stage_pass s;
    causeway::tensor x = r.first > 0 ? boundary : embedded(t, b);
    t.range = r, t.scale = b.grad_scale;
    for (std::int64_t i = r.first; i < r.last; ++i) {
      spend(seconds_.forward);
      causeway::tensor y = t.make(causeway::dtype::f32, x.shape());
      const auto in = x.span<float>();
      const auto out = y.span<float>();
      for (std::size_t k = 0; k < in.size(); ++k) out[k] = in[k] * gain(i) + static_cast<float>(i % 2);
      if (kind == causeway::nn::pass_kind::recorded) t.inputs.push_back(x);
      x = std::move(y);
    }
    if (r.last == blocks_) {
      for (const float v : x.span<float>()) s.loss += 0.5 * static_cast<double>(v) * static_cast<double>(v);
      if (kind == causeway::nn::pass_kind::recorded) t.inputs.push_back(x);
    } else {
      s.output.value = std::move(x);
    }
    return s;
  }

  causeway::result<causeway::tensor> backward_stage(tape_type& t, const causeway::nn::stage_pass& s, causeway::tensor d) {
    auto in = backward_inputs(t, s, std::move(d));
    (void)backward_weights(t);
    return in;
  }

  causeway::result<causeway::tensor> backward_inputs(tape_type& t, const causeway::nn::stage_pass&, causeway::tensor d) {
    if (t.range.last == blocks_) {
      const auto out = t.inputs.back().span<float>();
      d = t.make(causeway::dtype::f32, t.inputs.back().shape());
      for (std::size_t k = 0; k < out.size(); ++k) d.span<float>()[k] = t.scale * out[k];
      t.inputs.pop_back();
    }
    causeway::tensor g = t.make(causeway::dtype::f32, d.shape());
    std::copy(d.span<float>().begin(), d.span<float>().end(), g.span<float>().begin());
    for (std::int64_t i = t.range.last; i-- > t.range.first;) {
      spend(seconds_.input_gradient);
      const auto x = t.inputs[static_cast<std::size_t>(i - t.range.first)].span<float>();
      float dot = 0;
      for (std::size_t k = 0; k < x.size(); ++k) dot += x[k] * g.span<float>()[k];
      t.deferred.emplace_back(at_[static_cast<std::size_t>(i)], dot * 0.125F);
      for (float& v : g.span<float>()) v *= gain(i);
    }
    return t.range.first > 0 ? g : causeway::tensor{};
  }

  causeway::result<void> backward_weights(tape_type& t) {
    for (const auto& [segment, value] : t.deferred) {
      spend(seconds_.weight_gradient);
      *store_.gradient(segment) += value;
    }
    t.clear();
    return {};
  }

  causeway::result<double> forward_backward(std::span<const std::int32_t> inputs, std::span<const std::int32_t> targets,
                                            std::int64_t batch, float scale, std::uint64_t stream) {
    tape_type t = make_tape();
    CAUSEWAY_ASSIGN(const auto pass, forward_stage(t, {0, blocks_}, {inputs, targets, batch, scale, stream}, {},
                                                   causeway::nn::pass_kind::recorded));
    CAUSEWAY_ASSIGN(const causeway::tensor none, backward_stage(t, pass, {}));
    (void)none;
    return pass.loss;
  }
  causeway::result<double> evaluate(std::span<const std::int32_t> inputs, std::span<const std::int32_t> targets,
                                    std::int64_t batch) {
    tape_type t = make_tape();
    CAUSEWAY_ASSIGN(const auto pass, forward_stage(t, {0, blocks_}, {inputs, targets, batch, 0, 0}, {},
                                                   causeway::nn::pass_kind::evaluation));
    return pass.loss;
  }

 private:
  struct shared {
    causeway::kernels::cpu_backend backend{1};
    causeway::buffer_pool memory;
  };

  static std::size_t declare(causeway::parameter_store& in, std::int64_t b) {
    return in.add("block" + std::to_string(b), causeway::parameter_kind::vector, 1, 1, static_cast<int>(b));
  }
  // The blocks of the part, as they begin.
  void declare() {
    for (std::int64_t b = 0; b < blocks_; ++b) {
      at_.push_back(part_.holds(b) ? declare(store_, b) : causeway::nn::not_held);
    }
    store_.allocate();
    for (std::int64_t b = 0; b < blocks_; ++b) {
      if (part_.holds(b)) *store_.value(at_[static_cast<std::size_t>(b)]) = static_cast<float>(b % 3) * 0.25F;
    }
  }
  [[nodiscard]] float gain(std::int64_t block) {
    return 1.0F + 0.125F * *store_.value(at_[static_cast<std::size_t>(block)]);
  }
  void spend(double seconds) const {
    if (seconds_.spend) seconds_.spend(seconds);
  }
  [[nodiscard]] causeway::tensor embedded(tape_type& t, const causeway::nn::micro_batch& b) const {
    causeway::tensor x = t.make(causeway::dtype::f32, {static_cast<std::int64_t>(b.inputs.size()), width_});
    const auto values = x.span<float>();
    for (std::size_t k = 0; k < values.size(); ++k) {
      values[k] = static_cast<float>(b.inputs[k / static_cast<std::size_t>(width_)] % 16) / 8.0F;
    }
    return x;
  }

  std::unique_ptr<shared> shared_;
  causeway::parameter_store store_;
  std::vector<std::size_t> at_;
  std::int64_t blocks_;
  std::int64_t width_;
  causeway::nn::model_part part_;
  block_seconds seconds_;
};
static_assert(causeway::Model<timed_stages>);

}  // namespace support

#endif  // CAUSEWAY_TESTS_SUPPORT_TIMED_STAGES_HPP
