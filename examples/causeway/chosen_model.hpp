// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_EXAMPLES_CHOSEN_MODEL_HPP
#define CAUSEWAY_EXAMPLES_CHOSEN_MODEL_HPP

// A model chosen at run time, so that a policy needs no trainer type for each model family. What it costs is one call
// through a pointer for each micro-batch.

#include <causeway/core/result.hpp>
#include <causeway/core/thread_pool.hpp>
#include <causeway/nn/language_model.hpp>
#include <causeway/parallel/stage_model.hpp>
#include <causeway/tensor/parameters.hpp>
#include <causeway/train/model.hpp>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "corpus.hpp"
#include "generate.hpp"
#include "settings.hpp"

namespace app {

class chosen_model {
 public:
  using tokens = std::span<const std::int32_t>;
  using stage_pass = causeway::nn::stage_pass;

  struct device {
    causeway::thread_pool* threads;
    causeway::thread_pool& pool() { return *threads; }
  };

  template <causeway::Model M>
  static chosen_model of(M model) {
    return chosen_model{std::make_unique<holder<M>>(std::move(model))};
  }

  causeway::parameter_store& parameters() { return it_->parameters(); }
  device backend() { return {&it_->pool()}; }
  [[nodiscard]] std::uint64_t config_hash() { return it_->config_hash(); }
  causeway::result<double> forward_backward(tokens inputs, tokens targets, std::int64_t sequences, float scale,
                                            std::uint64_t stream) {
    return it_->forward_backward(inputs, targets, sequences, scale, stream);
  }
  causeway::result<double> evaluate(tokens inputs, tokens targets, std::int64_t sequences) {
    return it_->evaluate(inputs, targets, sequences);
  }
  causeway::result<std::string> sample(text_codec& codec, const settings& s) { return it_->sample(codec, s); }

  // Stage by stage: causeway::parallel::StageModel.
  using tape_type = causeway::autograd::tape<causeway::kernels::cpu_backend>;
  tape_type make_tape() { return it_->make_tape(); }
  [[nodiscard]] std::int64_t blocks() const { return it_->blocks(); }
  [[nodiscard]] std::int64_t width() const { return it_->width(); }
  [[nodiscard]] const causeway::nn::model_part& part() const { return it_->part(); }
  [[nodiscard]] std::size_t tied_table() const { return it_->tied_table(); }
  causeway::result<stage_pass> forward_stage(tape_type& t, causeway::nn::block_range r, const causeway::nn::micro_batch& b,
                                             causeway::tensor boundary, causeway::nn::pass_kind kind) {
    return it_->forward_stage(t, r, b, std::move(boundary), kind);
  }
  causeway::result<causeway::tensor> backward_stage(tape_type& t, const stage_pass& s, causeway::tensor d_output) {
    return it_->backward_stage(t, s, std::move(d_output));
  }
  causeway::result<causeway::tensor> backward_inputs(tape_type& t, const stage_pass& s, causeway::tensor d_output) {
    return it_->backward_inputs(t, s, std::move(d_output));
  }
  causeway::result<void> backward_weights(tape_type& t) { return it_->backward_weights(t); }
  // Another part of the model: causeway::parallel::elastic_pipeline.
  causeway::result<void> hold(causeway::nn::model_part part) { return it_->hold(std::move(part)); }
  [[nodiscard]] std::int64_t block_length(std::int64_t block) const { return it_->block_length(block); }

 private:
  struct face {
    virtual ~face() = default;
    virtual causeway::parameter_store& parameters() = 0;
    virtual causeway::thread_pool& pool() = 0;
    virtual std::uint64_t config_hash() = 0;
    virtual causeway::result<double> forward_backward(tokens, tokens, std::int64_t, float, std::uint64_t) = 0;
    virtual causeway::result<double> evaluate(tokens, tokens, std::int64_t) = 0;
    virtual causeway::result<std::string> sample(text_codec&, const settings&) = 0;
    virtual tape_type make_tape() = 0;
    virtual std::int64_t blocks() = 0;
    virtual std::int64_t width() = 0;
    virtual const causeway::nn::model_part& part() = 0;
    virtual std::size_t tied_table() = 0;
    virtual causeway::result<stage_pass> forward_stage(tape_type&, causeway::nn::block_range,
                                                       const causeway::nn::micro_batch&, causeway::tensor,
                                                       causeway::nn::pass_kind) = 0;
    virtual causeway::result<causeway::tensor> backward_stage(tape_type&, const stage_pass&, causeway::tensor) = 0;
    virtual causeway::result<causeway::tensor> backward_inputs(tape_type&, const stage_pass&, causeway::tensor) = 0;
    virtual causeway::result<void> backward_weights(tape_type&) = 0;
    virtual causeway::result<void> hold(causeway::nn::model_part) = 0;
    virtual std::int64_t block_length(std::int64_t) = 0;
  };

  template <class M>
  struct holder final : face {
    explicit holder(M m) : model{std::move(m)} {}
    causeway::parameter_store& parameters() override { return model.parameters(); }
    causeway::thread_pool& pool() override { return model.backend().pool(); }
    std::uint64_t config_hash() override { return model.config_hash(); }
    causeway::result<double> forward_backward(tokens inputs, tokens targets, std::int64_t sequences, float scale,
                                              std::uint64_t stream) override {
      return model.forward_backward(inputs, targets, sequences, scale, stream);
    }
    causeway::result<double> evaluate(tokens inputs, tokens targets, std::int64_t sequences) override {
      return model.evaluate(inputs, targets, sequences);
    }
    causeway::result<std::string> sample(text_codec& codec, const settings& s) override {
      return sample_text(model, codec, s);
    }
    tape_type make_tape() override { return model.make_tape(); }
    std::int64_t blocks() override { return model.blocks(); }
    std::int64_t width() override { return model.width(); }
    const causeway::nn::model_part& part() override { return model.part(); }
    std::size_t tied_table() override { return model.tied_table(); }
    causeway::result<stage_pass> forward_stage(tape_type& t, causeway::nn::block_range r,
                                               const causeway::nn::micro_batch& b, causeway::tensor boundary,
                                               causeway::nn::pass_kind kind) override {
      return model.forward_stage(t, r, b, std::move(boundary), kind);
    }
    causeway::result<causeway::tensor> backward_stage(tape_type& t, const stage_pass& s, causeway::tensor d) override {
      return model.backward_stage(t, s, std::move(d));
    }
    causeway::result<causeway::tensor> backward_inputs(tape_type& t, const stage_pass& s, causeway::tensor d) override {
      return model.backward_inputs(t, s, std::move(d));
    }
    causeway::result<void> backward_weights(tape_type& t) override { return model.backward_weights(t); }
    causeway::result<void> hold(causeway::nn::model_part part) override { return model.hold(std::move(part)); }
    std::int64_t block_length(std::int64_t block) override { return model.block_length(block); }
    M model;
  };

  explicit chosen_model(std::unique_ptr<face> it) : it_{std::move(it)} {}

  std::unique_ptr<face> it_;
};
static_assert(causeway::Model<chosen_model> && causeway::parallel::StageModel<chosen_model>);

inline causeway::result<std::string> sample_text(chosen_model& model, text_codec& codec, const settings& s) {
  return model.sample(codec, s);
}

}  // namespace app

#endif  // CAUSEWAY_EXAMPLES_CHOSEN_MODEL_HPP
