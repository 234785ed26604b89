// SPDX-License-Identifier: Apache-2.0
#include <causeway/stage/subspace_pieces.hpp>

#include "support/catch.hpp"
#include "support/models.hpp"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

using namespace causeway;

namespace {

constexpr std::int64_t width = 16, rank = 3;

/// The largest value that the second block adds to the residual stream outside of the subspace, over the largest it adds.
template <class Model>
double outside(Model& model, const stage::subspace_basis& basis, std::vector<float> start) {
  const std::vector<std::int32_t> tokens{3, 1, 4, 1, 5, 9, 2, 6};
  auto tape = model.make_tape();
  auto x = tensor::borrow(start.data(), {8, width});
  auto pass = model.forward_stage(tape, {1, 2}, {tokens, tokens, 1, 1.0F, 0}, x, nn::pass_kind::evaluation).value();
  const auto after = pass.output.value.template span<float>();
  std::vector<float> added(after.begin(), after.end());
  for (std::size_t i = 0; i < added.size(); ++i) added[i] -= start[i];
  auto inside = added;
  thread_pool pool{1};
  basis.project_rows(pool, inside);
  double most = 0, size = 0;
  for (std::size_t i = 0; i < added.size(); ++i) {
    most = std::max(most, static_cast<double>(std::abs(added[i] - inside[i])));
    size = std::max(size, static_cast<double>(std::abs(added[i])));
  }
  return most / size;
}

template <class Model>
void check(const typename Model::options_type& o, std::size_t writers) {
  auto model = Model::create(o).value();
  thread_pool pool{1};
  rng draw{3};
  for (float& v : model.parameters().values()) v = draw.normal() * 0.1F;  // biases, too
  std::vector<float> start(8 * width);
  for (float& v : start) v = draw.normal();
  const auto basis = stage::subspace_basis::random(1, width, rank).value();
  model.parameters().touch();
  const std::vector<float> before{model.parameters().values().begin(), model.parameters().values().end()};
  CHECK(outside(model, basis, start) > 0.1);
  stage::confine(pool, model.parameters(), basis, stage::residual_writers());
  CHECK(outside(model, basis, start) < 1e-4);
  std::size_t changed = 0;
  for (std::size_t s = 0; s < model.parameters().segments().size(); ++s) {
    const auto& segment = model.parameters().segments()[s];
    const float* const now = model.parameters().value(s);
    if (!std::equal(now, now + segment.size(), before.begin() + segment.offset)) ++changed;
  }
  CHECK(changed == writers);
}

}  // namespace

TEST_CASE("subspace_pieces: blocks of a confined GPT write along the subspace, and nothing else of it changes",
          "[stage][fast]") {
  nn::gpt_options o;
  o.layers = 3, o.heads = 2, o.width = width, o.context = 8, o.vocabulary = 11;
  check<nn::gpt>(o, 4 * 3);  // two matrices and two biases a block
}

TEST_CASE("subspace_pieces: blocks of a confined Llama write along the subspace, and nothing else of it changes",
          "[stage][fast]") {
  nn::llama_options o;
  o.layers = 4, o.heads = 2, o.kv_heads = 1, o.width = width, o.hidden = 24, o.context = 8, o.vocabulary = 11;
  check<nn::llama>(o, 2 * 4);
}
