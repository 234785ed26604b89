// SPDX-License-Identifier: Apache-2.0
#include "chosen_model.hpp"

#include <causeway/kernels/backend.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "generate.hpp"
#include "model_options.hpp"
#include "policies.hpp"
#include "stand_in.hpp"

namespace app {

using causeway::result;
using causeway::tensor;

namespace {

using face = chosen_model::face;
using tokens = chosen_model::tokens;
using tape_type = chosen_model::tape_type;
using stage_pass = chosen_model::stage_pass;

template <class M>
struct whole_model : face {
  explicit whole_model(M m) : model{std::move(m)} {}
  causeway::parameter_store& parameters() override { return model.parameters(); }
  causeway::thread_pool& pool() override { return model.backend().pool(); }
  std::uint64_t config_hash() override { return model.config_hash(); }
  result<double> forward_backward(tokens inputs, tokens targets, std::int64_t sequences, float scale,
                                  std::uint64_t stream) override {
    return model.forward_backward(inputs, targets, sequences, scale, stream);
  }
  result<double> evaluate(tokens inputs, tokens targets, std::int64_t sequences) override {
    return model.evaluate(inputs, targets, sequences);
  }
  M model;
};

/// A language model, which writes text and can be cut into stages.
template <class M>
struct language_model final : whole_model<M> {
  using whole_model<M>::whole_model;
  using whole_model<M>::model;
  result<std::string> sample(text_codec& codec, const settings& s, const text_sink& to) override {
    return sample_text(model, codec, s, to);
  }
  result<void> extend(text_codec& codec, const settings& s, const text_sink& to, text_so_far& text,
                      std::int64_t count) override {
    return extend_text(model, codec, s, to, text, count);
  }
  result<tensor> hidden_states(tokens inputs, std::int64_t sequences) override {
    return model.hidden_states(inputs, sequences);
  }
  result<void> load(const std::string& folder) override {
    started_from = folder;
    return causeway::formats::load_model(folder, model);
  }
  causeway::formats::model_options options() override { return model.options(); }
  std::int64_t context_length() override { return model.context_length(); }
  std::string computes_on() override { return model.backend().describe(); }
  causeway::nn::memory_estimate memory_estimate(std::int64_t sequences) override {
    return model.memory_estimate(sequences);
  }
  tape_type make_tape() override { return model.make_tape(); }
  std::int64_t blocks() override { return model.blocks(); }
  std::int64_t width() override { return model.width(); }
  const causeway::nn::model_part& part() override { return model.part(); }
  std::size_t tied_table() override { return model.tied_table(); }
  bool shares_table() override { return model.shares_table(); }
  bool joined_ends() override { return model.joined_ends(); }
  causeway::nn::embedding_tables embedding() override { return model.embedding(); }
  causeway::nn::embedding_values initial_embedding() override { return model.initial_embedding(); }
  void adjust_initial(chosen_model::initial_adjustment adjust) override { model.adjust_initial(std::move(adjust)); }
  std::int64_t vocabulary() override { return model.vocabulary(); }
  float dropout() override { return model.dropout(); }
  result<stage_pass> forward_stage(tape_type& t, causeway::nn::block_range r, const causeway::nn::micro_batch& b,
                                   tensor boundary, causeway::nn::pass_kind kind) override {
    return model.forward_stage(t, r, b, std::move(boundary), kind);
  }
  result<tensor> backward_stage(tape_type& t, const stage_pass& s, tensor d) override {
    return model.backward_stage(t, s, std::move(d));
  }
  result<tensor> backward_inputs(tape_type& t, const stage_pass& s, tensor d) override {
    return model.backward_inputs(t, s, std::move(d));
  }
  result<void> backward_weights(tape_type& t) override { return model.backward_weights(t); }
  // Blocks that come anew begin as the others did.
  result<void> hold(causeway::nn::model_part part) override {
    std::set<std::string> before;
    for (const auto& s : model.parameters().segments()) before.insert(s.name);
    CAUSEWAY_TRY(model.hold(std::move(part)));
    if (started_from.empty()) return {};
    return causeway::formats::load_model(started_from, model, before);
  }
  std::int64_t block_length(std::int64_t block) override { return model.block_length(block); }
  causeway::parameter_store declared_parameters() override { return model.declared_parameters(); }

  std::string started_from;  ///< a stored model; empty: from the seed
};

template <class M>
result<chosen_model> make(const typename M::options_type& options, const settings& s, causeway::nn::model_part part) {
  causeway::kernels::cpu_backend backend{s.net.threads};
  CAUSEWAY_ASSIGN(M model, M::create(options, std::move(backend), std::move(part)));
  model.initialize(s.run.seed);
  return chosen_model{std::make_unique<language_model<M>>(std::move(model))};
}

}  // namespace

result<chosen_model> make_model(const settings& s, std::int64_t vocabulary, causeway::nn::model_part part) {
  if (rows_of_table(s, vocabulary) < vocabulary) {
    return causeway::fail(causeway::errc::wrong_model, "model.vocabulary",
                          "is " + std::to_string(s.model.vocabulary) + ", and the text has " + std::to_string(vocabulary) +
                              " tokens; use a smaller data.vocabulary, or data.tokenizer bytes");
  }
  if (s.model.family == "llama") return make<causeway::nn::llama>(llama_options_of(s, vocabulary), s, std::move(part));
  return make<causeway::nn::gpt>(gpt_options_of(s, vocabulary), s, std::move(part));
}

namespace {

// Of one with few values: how many tensors there are follows from the number of blocks alone.
std::size_t tensors_with(settings s, std::int64_t layers) {
  auto& m = s.model;
  m.layers = layers, m.heads = 1, m.kv_heads = 0, m.width = 8, m.hidden = 0, m.context = 8, m.vocabulary = 0;
  m.rope_scaling.clear();
  s.parallel.recovery = settings{}.parallel.recovery;
  s.net.threads = 1;
  auto model = make_model(s, 2);
  return model ? model->parameters().segments().size() : SIZE_MAX;
}

}  // namespace

std::size_t tensors_of(const settings& s) {
  if (has_servers(s)) return SIZE_MAX;
  const std::size_t one = tensors_with(s, 1), block = tensors_with(s, 2) - one;
  return one + static_cast<std::size_t>(std::max<std::int64_t>(1, s.model.layers) - 1) * block;
}

chosen_model make_stand_in(const settings& s) {
  return chosen_model{std::make_unique<whole_model<stand_in>>(stand_in{s.sim.parameters, s.model.layers})};
}

}  // namespace app
