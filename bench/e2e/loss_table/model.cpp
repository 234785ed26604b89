// SPDX-License-Identifier: Apache-2.0
#include "model.hpp"

#include <causeway/nn/gpt.hpp>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <utility>

namespace losses {

using namespace causeway;

namespace {

nn::gpt make_model() {
  nn::gpt_options o;
  o.layers = 2, o.heads = 2, o.width = 32, o.context = context_length, o.vocabulary = 128;
  auto model = nn::gpt::create(o);
  CAUSEWAY_EXPECT(model);  // the options are ours
  model->initialize(1);
  return std::move(*model);
}

}  // namespace

struct small_gpt::inside {
  nn::gpt model = make_model();
  device threads{&model.backend().pool()};
};

small_gpt::small_gpt() : inside_{std::make_unique<inside>()} {}
small_gpt::small_gpt(small_gpt&&) noexcept = default;
small_gpt& small_gpt::operator=(small_gpt&&) noexcept = default;
small_gpt::~small_gpt() = default;

parameter_store& small_gpt::parameters() { return inside_->model.parameters(); }
std::uint64_t small_gpt::config_hash() const { return inside_->model.config_hash(); }
small_gpt::device& small_gpt::backend() { return inside_->threads; }

result<double> small_gpt::forward_backward(std::span<const std::int32_t> inputs, std::span<const std::int32_t> targets,
                                           std::int64_t sequences, float scale, std::uint64_t stream) {
  return inside_->model.forward_backward(inputs, targets, sequences, scale, stream);
}
result<double> small_gpt::evaluate(std::span<const std::int32_t> inputs, std::span<const std::int32_t> targets,
                                   std::int64_t sequences) {
  return inside_->model.evaluate(inputs, targets, sequences);
}

result<corpus> corpus::read(const std::string& path) {
  std::ifstream in{path, std::ios::binary};
  const std::string text{std::istreambuf_iterator<char>{in}, {}};
  if (text.size() < (1U << 20U)) {
    return fail(errc::bad_text, path, "no text of 1 MB or more; tools/quickstart.sh puts one at data/kjv.txt");
  }
  std::vector<std::int32_t> tokens;
  for (const char c : text) tokens.push_back(static_cast<unsigned char>(c) % 128);
  const std::size_t cut = tokens.size() / 20 * 19;
  return corpus{data::token_stream{std::span{tokens}.first(cut)}, data::token_stream{std::span{tokens}.subspan(cut)}, {}};
}

small_gpt starting_model(const corpus& text) {
  small_gpt model;
  std::copy(text.start.begin(), text.start.end(), model.parameters().values().begin());
  model.parameters().touch();
  return model;
}

result<double> validation_loss(small_gpt& model, const corpus& text) {
  constexpr std::int64_t windows = 32768 / context_length;
  constexpr std::int64_t at_once = 16;
  CAUSEWAY_ASSIGN(auto held_out, data::validation_windows::make(text.validation, context_length, windows));
  double sum = 0;
  for (std::int64_t w = 0; w < windows; w += at_once) {
    const auto b = held_out.at(w, at_once);
    CAUSEWAY_ASSIGN(const double loss, model.evaluate(b.inputs, b.targets, b.sequences));
    sum += loss;
  }
  return sum / static_cast<double>(windows * context_length);
}

}  // namespace losses
