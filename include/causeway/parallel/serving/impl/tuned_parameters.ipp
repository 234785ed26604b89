// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PARALLEL_SERVING_IMPL_TUNED_PARAMETERS_IPP
#define CAUSEWAY_PARALLEL_SERVING_IMPL_TUNED_PARAMETERS_IPP

#include <causeway/parallel/serving/tuned_parameters.hpp>

#include <cmath>
#include <new>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace parallel {

CAUSEWAY_DECL result<tuned_parameters> tuned_parameters::create(const tuning_options& o, const span_model& model,
                                                                std::int64_t context) {
  if (!o.prompts && !o.adapters) {
    return fail(errc::invalid_argument, "tuned_model", "nothing is to be trained: give it prompts, adapters or both");
  }
  if (o.prompts && (o.prompts->rows < 1 || o.prompts->rows >= context)) {
    return fail(errc::invalid_argument, "tuned_model",
                std::to_string(o.prompts->rows) + " rows of prompts in a context of " + std::to_string(context) +
                    "; there must be some and room for tokens");
  }
  tuned_parameters made{o, model};
  if (o.adapters) {
    CAUSEWAY_ASSIGN(made.tuning_.adapters, nn::shape_of(*o.adapters, model.maps));
    made.factor_ = o.adapters->alpha / static_cast<float>(o.adapters->rank);
  }
  CAUSEWAY_TRY(made.check_count());
  try {
    made.declare();
  } catch (const std::bad_alloc&) {
    return fail(errc::out_of_memory, "tuned_model", "no memory for what is trained: fewer rows or a lower rank");
  }
  return made;
}

CAUSEWAY_DECL void tuned_parameters::initialize(thread_pool& pool, std::uint64_t seed) {
  nn::fill_initial(pool, store_, initial_, seed);
  store_.touch();
}

CAUSEWAY_DECL void tuned_parameters::gather(std::vector<float>& tuned) {
  tuned.resize(static_cast<std::size_t>(model_.layers * tuning_.values(model_.width, model_.maps)));
  float* to = tuned.data();
  for (const piece& p : pieces_) {
    const float* const from = store_.value(p.segment) + p.offset;
    for (std::int64_t i = 0; i < p.count; ++i) *to++ = p.factor * from[i];
  }
}

CAUSEWAY_DECL void tuned_parameters::add_gradients(std::span<const float> d_tuned) {
  const float* from = d_tuned.data();
  for (const piece& p : pieces_) {
    float* const to = store_.gradient(p.segment) + p.offset;
    for (std::int64_t i = 0; i < p.count; ++i) to[i] += p.factor * *from++;
  }
}

CAUSEWAY_DECL tuned_parameters::tuned_parameters(const tuning_options& o, const span_model& model) : model_{model} {
  if (!o.prompts) return;
  rows_ = o.prompts->rows;
  if (o.prompts->deep) tuning_.prompts = rows_;
}

CAUSEWAY_DECL result<void> tuned_parameters::check_count() const {
  constexpr double most = 1099511627776.0;  // 2^40, as for models
  const auto block = static_cast<double>(tuning_.values(model_.width, model_.maps));
  if (static_cast<double>(model_.layers) * block <= most) return {};
  return fail(errc::too_large, "tuned_model", "more than 2^40 values would be trained: fewer rows or a lower rank");
}

CAUSEWAY_DECL void tuned_parameters::declare() {
  if (rows_ > 0) add("prompts", parameter_kind::embedding, rows_, model_.width, nn::initial_deviation);
  std::size_t deep = 0;
  if (tuning_.prompts > 0) {
    deep = add("deep_prompts", parameter_kind::embedding, model_.layers * rows_, model_.width, 0.0F);
  }
  const std::int64_t each = tuning_.prompts * model_.width;
  for (std::int64_t block = 0; block < model_.layers; ++block) {
    if (each > 0) pieces_.push_back({deep, block * each, each, 1.0F});
    for (std::size_t map = 0; map < nn::linear_maps; ++map) {
      if (tuning_.adapters.has(map)) declare_adapter(block, map);
    }
  }
  store_.allocate();
}

CAUSEWAY_DECL void tuned_parameters::declare_adapter(std::int64_t block, std::size_t map) {
  const std::string name = "block." + std::to_string(block) + "." + std::string{nn::linear_map_names[map]};
  const auto [inputs, outputs] = model_.maps[map];
  const std::int64_t rank = tuning_.adapters.rank;
  const float deviation = 1.0F / std::sqrt(static_cast<float>(inputs));
  const std::size_t a = add(name + ".lora_A", parameter_kind::matrix, rank, inputs, deviation, block);
  const std::size_t b = add(name + ".lora_B", parameter_kind::matrix, outputs, rank, 0.0F, block);
  pieces_.push_back({a, 0, rank * inputs, 1.0F});
  pieces_.push_back({b, 0, outputs * rank, factor_});
}

CAUSEWAY_DECL std::size_t tuned_parameters::add(std::string name, parameter_kind kind, std::int64_t rows,
                                                std::int64_t columns, float deviation, std::int64_t block) {
  initial_.push_back({0.0F, deviation, initial_.size()});
  return store_.add(std::move(name), kind, rows, columns, static_cast<int>(block));
}

}}}  // namespace causeway::CAUSEWAY_ABI::parallel

#endif  // CAUSEWAY_PARALLEL_SERVING_IMPL_TUNED_PARAMETERS_IPP
