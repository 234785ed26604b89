// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_EXAMPLES_CHOSEN_MODEL_HPP
#define CAUSEWAY_EXAMPLES_CHOSEN_MODEL_HPP

// A model chosen at run time, so that no trainer type is needed for each model family. What it costs is one call through a
// pointer for each micro-batch.

#include <causeway/core/result.hpp>
#include <causeway/core/thread_pool.hpp>
#include <causeway/formats/huggingface.hpp>
#include <causeway/nn/declaration.hpp>
#include <causeway/nn/language_model.hpp>
#include <causeway/nn/memory_estimate.hpp>
#include <causeway/parallel/stage_model.hpp>
#include <causeway/tensor/parameters.hpp>
#include <causeway/train/model.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "settings.hpp"
#include "text_codec.hpp"

namespace app {

/// Takes the text of a model as it is made; what it is given is whole characters.
using text_sink = std::function<void(std::string_view)>;
struct text_so_far;  // generate.hpp

class chosen_model {
 public:
  using tokens = std::span<const std::int32_t>;
  using stage_pass = causeway::nn::stage_pass;
  using tape_type = causeway::autograd::tape<causeway::kernels::cpu_backend>;

  using initial_adjustment = std::function<void(causeway::thread_pool&, causeway::parameter_store&)>;

  struct device {
    causeway::thread_pool* threads;
    causeway::thread_pool& pool() { return *threads; }
  };

  /// What every model has. One without stages, the stand-in, is never asked for them: simulations have none.
  struct face {
    virtual ~face() = default;
    virtual causeway::parameter_store& parameters() = 0;
    virtual causeway::thread_pool& pool() = 0;
    virtual std::uint64_t config_hash() = 0;
    virtual causeway::result<double> forward_backward(tokens, tokens, std::int64_t, float, std::uint64_t) = 0;
    virtual causeway::result<double> evaluate(tokens, tokens, std::int64_t) = 0;

    virtual causeway::result<double> complete_gradients(double loss) { return loss; }
    virtual causeway::result<std::string> sample(text_codec&, const settings&, const text_sink&) { return no_stages(); }
    virtual causeway::result<void> extend(text_codec&, const settings&, const text_sink&, text_so_far&, std::int64_t) {
      return no_stages();
    }
    virtual causeway::result<causeway::tensor> hidden_states(tokens, std::int64_t) { return no_stages(); }
    virtual causeway::result<void> load(const std::string&) { return no_stages(); }
    virtual causeway::formats::model_options options() { std::abort(); }
    virtual std::int64_t context_length() { return 0; }
    virtual std::string computes_on() { return {}; }
    virtual causeway::nn::memory_estimate memory_estimate(std::int64_t) { return {}; }
    virtual tape_type make_tape() { std::abort(); }
    virtual std::int64_t blocks() { return 0; }
    virtual std::int64_t width() { return 0; }
    virtual const causeway::nn::model_part& part() { std::abort(); }
    virtual std::size_t tied_table() { return 0; }
    virtual bool shares_table() { return false; }
    virtual bool joined_ends() { return false; }
    virtual causeway::nn::embedding_tables embedding() { return {}; }
    virtual causeway::nn::embedding_values initial_embedding() { return {}; }
    virtual void adjust_initial(initial_adjustment) {}
    virtual std::int64_t vocabulary() { return 0; }
    virtual float dropout() { return 0; }
    virtual causeway::result<stage_pass> forward_stage(tape_type&, causeway::nn::block_range,
                                                       const causeway::nn::micro_batch&, causeway::tensor,
                                                       causeway::nn::pass_kind) {
      return no_stages();
    }
    virtual causeway::result<causeway::tensor> backward_stage(tape_type&, const stage_pass&, causeway::tensor) {
      return no_stages();
    }
    virtual causeway::result<causeway::tensor> backward_inputs(tape_type&, const stage_pass&, causeway::tensor) {
      return no_stages();
    }
    virtual causeway::result<void> backward_weights(tape_type&) { return no_stages(); }
    virtual causeway::result<void> hold(causeway::nn::model_part) { return no_stages(); }
    virtual std::int64_t block_length(std::int64_t) { return 0; }
    virtual causeway::parameter_store declared_parameters() { return {}; }

    static causeway::error no_stages() {
      return causeway::fail(causeway::errc::unsupported, "model", "this one has neither stages nor text");
    }
  };
  explicit chosen_model(std::unique_ptr<face> it) : it_{std::move(it)} {}

  causeway::parameter_store& parameters() { return it_->parameters(); }
  device backend() { return {&it_->pool()}; }
  [[nodiscard]] std::uint64_t config_hash() { return it_->config_hash(); }
  causeway::result<double> forward_backward(tokens inputs, tokens targets, std::int64_t sequences, float scale,
                                            std::uint64_t stream) {
    return it_->forward_backward(inputs, targets, sequences, scale, stream);
  }
  causeway::result<double> complete_gradients(double loss) { return it_->complete_gradients(loss); }
  causeway::result<double> evaluate(tokens inputs, tokens targets, std::int64_t sequences) {
    return it_->evaluate(inputs, targets, sequences);
  }
  causeway::result<std::string> sample(text_codec& codec, const settings& s, const text_sink& to = {}) {
    return it_->sample(codec, s, to);
  }
  /// So many tokens more of a text.
  causeway::result<void> extend(text_codec& codec, const settings& s, const text_sink& to, text_so_far& text,
                                std::int64_t count) {
    return it_->extend(codec, s, to, text, count);
  }
  /// What the last block makes of these sequences, which nn::prefix_features takes the mean of.
  causeway::result<causeway::tensor> hidden_states(tokens inputs, std::int64_t sequences) {
    return it_->hidden_states(inputs, sequences);
  }
  /// Parameters, or those of the part that is here, from a folder in Hugging Face's layout.
  causeway::result<void> load(const std::string& folder) { return it_->load(folder); }
  [[nodiscard]] causeway::formats::model_options options() { return it_->options(); }
  [[nodiscard]] std::int64_t context_length() { return it_->context_length(); }
  /// What computes, and what a batch of so many sequences takes of memory.
  [[nodiscard]] std::string computes_on() { return it_->computes_on(); }
  [[nodiscard]] causeway::nn::memory_estimate memory_estimate(std::int64_t sequences) {
    return it_->memory_estimate(sequences);
  }

  // Stage by stage: causeway::parallel::StageModel.
  tape_type make_tape() { return it_->make_tape(); }
  [[nodiscard]] std::int64_t blocks() const { return it_->blocks(); }
  [[nodiscard]] std::int64_t width() const { return it_->width(); }
  [[nodiscard]] const causeway::nn::model_part& part() const { return it_->part(); }
  [[nodiscard]] std::size_t tied_table() const { return it_->tied_table(); }
  [[nodiscard]] bool shares_table() const { return it_->shares_table(); }
  [[nodiscard]] bool joined_ends() const { return it_->joined_ends(); }
  [[nodiscard]] causeway::parameter_store declared_parameters() const { return it_->declared_parameters(); }
  [[nodiscard]] causeway::nn::embedding_tables embedding() const { return it_->embedding(); }
  [[nodiscard]] causeway::nn::embedding_values initial_embedding() const { return it_->initial_embedding(); }
  void adjust_initial(initial_adjustment adjust) { it_->adjust_initial(std::move(adjust)); }
  [[nodiscard]] std::int64_t vocabulary() const { return it_->vocabulary(); }
  [[nodiscard]] float dropout() const { return it_->dropout(); }
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
  std::unique_ptr<face> it_;
};
static_assert(causeway::Model<chosen_model> && causeway::parallel::StageModel<chosen_model>);

/// The model of the settings, or a part of it, as it is at the start of a run.
causeway::result<chosen_model> make_model(const settings& s, std::int64_t vocabulary, causeway::nn::model_part part = {});

/// For simulations: see stand_in.hpp.
chosen_model make_stand_in(const settings& s);

inline causeway::result<std::string> sample_text(chosen_model& model, text_codec& codec, const settings& s) {
  return model.sample(codec, s);
}

}  // namespace app

#endif  // CAUSEWAY_EXAMPLES_CHOSEN_MODEL_HPP
