// SPDX-License-Identifier: Apache-2.0
#include "cuda/step.hpp"

#include <causeway/cuda/adamw.hpp>
#include <causeway/cuda/backend.hpp>
#include <causeway/nn/gpt.hpp>
#include <causeway/optim/clip.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <utility>

namespace bench {

using namespace causeway;

namespace {

struct step_size {
  std::string name;
  nn::gpt_options model;
  std::int64_t sequences;
  int repeats;
  bool graphs;  ///< measured with recorded passes as well
};

std::vector<step_size> sizes(bool quick) {
  nn::gpt_options tiny{.layers = 6, .heads = 4, .width = 256, .context = 256}, small, large;
  large.layers = 48, large.heads = 25, large.width = 1600;
  if (quick) {
    tiny = {.layers = 1, .heads = 1, .width = 64, .context = 32, .vocabulary = 100};
    small = {.layers = 2, .heads = 1, .width = 64, .context = 32, .vocabulary = 100};
    large = {.layers = 3, .heads = 2, .width = 128, .context = 32, .vocabulary = 100};
  }
  tiny.precision = small.precision = large.precision = nn::precision::bf16;
  return {{"GPT 18M", tiny, quick ? 2 : 8, quick ? 1 : 21, true},
          {"GPT-2 124M", small, quick ? 2 : 64, quick ? 1 : 7, true},
          {"GPT-2 1.5B", large, quick ? 2 : 16, quick ? 1 : 5, false}};
}

/// Six operations a weight of a matrix and token, and both products of attention three times, for half the positions.
double operations_of(const nn::gpt_options& o, double tokens) {
  const auto width = static_cast<double>(o.width), layers = static_cast<double>(o.layers);
  const double matrices =
      layers * static_cast<double>(4 + 2 * o.mlp_ratio) * width * width + static_cast<double>(o.vocabulary) * width;
  return tokens * (6 * matrices + 6 * layers * width * static_cast<double>(o.context));
}

using gpt = nn::basic_gpt<cuda::backend>;

result<void> one_step(gpt& model, cuda::adamw& optimizer, const std::vector<std::int32_t>& tokens, std::int64_t sequences) {
  parameter_view all = model.parameters().view();
  const auto length = static_cast<std::int64_t>(all.gradients.size());
  model.backend().zero(all.gradients.data(), length);
  const float scale = 1.0F / static_cast<float>(tokens.size());
  CAUSEWAY_ASSIGN([[maybe_unused]] const double loss, model.forward_backward(tokens, tokens, sequences, scale, 0));
  const auto norm = static_cast<float>(std::sqrt(model.backend().sum_of_squares(all.gradients.data(), length)));
  CAUSEWAY_TRY(optim::check_norm(norm, "step"));
  optimizer.step(model.backend().pool(), all, {.learning_rate = 1e-4F, .gradient_scale = optim::clip_scale(norm, 1.0F)});
  model.parameters().touch();
  return {};
}

result<step_figure> measure(const step_size& s, bool graphs) {
  CAUSEWAY_ASSIGN(const auto engine, open_engine(graphs));
  CAUSEWAY_ASSIGN(gpt model, gpt::create(s.model, cuda::backend{engine}));
  cuda::adamw optimizer{engine};
  optimizer.reset(model.parameters().length());
  const std::int64_t count = s.sequences * s.model.context;
  std::vector<std::int32_t> tokens;
  for (std::int64_t i = 0; i < count; ++i) tokens.push_back(static_cast<std::int32_t>(i * 7919 % s.model.vocabulary));
  for (int warm = 0; warm < 3; ++warm) CAUSEWAY_TRY(one_step(model, optimizer, tokens, s.sequences));
  std::vector<double> times;
  for (int i = 0; i < s.repeats; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    CAUSEWAY_TRY(one_step(model, optimizer, tokens, s.sequences));
    times.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  std::nth_element(times.begin(), times.begin() + std::ssize(times) / 2, times.end());
  const auto all = static_cast<double>(count);
  return step_figure{s.name + (!graphs                       ? ""
                               : model.replayed_passes() > 0 ? ", recorded"
                                                             : ", recording refused"),
                     all, times[times.size() / 2], operations_of(s.model, all)};
}

}  // namespace

result<std::vector<step_figure>> measure_steps(bool quick) {
  std::vector<step_figure> figures;
  for (const step_size& s : sizes(quick)) {
    for (const bool graphs : {false, true}) {
      if (graphs && !s.graphs) continue;
      CAUSEWAY_ASSIGN(step_figure f, measure(s, graphs));
      figures.push_back(std::move(f));
    }
  }
  return result<std::vector<step_figure>>{std::move(figures)};
}

}  // namespace bench
