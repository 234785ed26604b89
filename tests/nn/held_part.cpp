// SPDX-License-Identifier: Apache-2.0
// A model whose part changes while it lives.
#include <causeway/nn/language_model.hpp>

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "support/catch.hpp"
#include "support/models.hpp"

namespace causeway {
namespace {

nn::gpt_options small(nn::precision p = nn::precision::f32) {
  nn::gpt_options o;
  o.layers = 4, o.heads = 2, o.width = 16, o.context = 8, o.vocabulary = 29, o.tie = false, o.precision = p;
  return o;
}

std::map<std::string, std::vector<float>> values_of(parameter_store& store) {
  std::map<std::string, std::vector<float>> all;
  for (std::size_t i = 0; i < store.segments().size(); ++i) {
    const auto& s = store.segments()[i];
    all[s.name].assign(store.value(i), store.value(i) + s.size());
  }
  return all;
}

}  // namespace

TEST_CASE("language model: another part keeps what both have, and begins the rest as the whole model does", "[nn][fast]") {
  auto whole = nn::gpt::create(small()).value();
  whole.initialize(7);
  auto m = nn::gpt::create(small(), kernels::cpu_backend{}, nn::model_part{{0, 2}}).value();
  m.initialize(7);
  for (float& v : m.parameters().values()) v += 1;
  const auto before = values_of(m.parameters());
  REQUIRE(m.hold(nn::model_part{{1, 4}}));
  const auto fresh = values_of(whole.parameters());
  for (const auto& [name, values] : values_of(m.parameters())) {
    CAPTURE(name);
    const auto kept = before.find(name);
    CHECK(values == (kept != before.end() ? kept->second : fresh.at(name)));
  }
  for (const float g : m.parameters().gradients()) CHECK(g == 0);
  CHECK_FALSE(m.part().holds(0));
  CHECK(m.part().holds(3));
}

TEST_CASE("language model: what fresh parameters are made into is so for parts that come later, once", "[nn][fast]") {
  const auto add_one = [](thread_pool&, parameter_store& all) {
    for (float& v : all.values()) v += 1;
  };
  auto whole = nn::gpt::create(small()).value();
  whole.initialize(7);
  whole.adjust_initial(add_one);
  auto m = nn::gpt::create(small(), kernels::cpu_backend{}, nn::model_part{{0, 2}}).value();
  m.adjust_initial(add_one);
  m.initialize(7);
  REQUIRE(m.hold(nn::model_part{{1, 4}}));
  const auto fresh = values_of(whole.parameters());
  for (const auto& [name, values] : values_of(m.parameters())) CHECK(values == fresh.at(name));
}

TEST_CASE("language model: what the embedding began with is known wherever it is held", "[nn][fast]") {
  auto whole = nn::gpt::create(small()).value();
  whole.initialize(7);
  const auto fresh = values_of(whole.parameters());
  for (float& v : whole.parameters().values()) v += 1;
  auto behind = nn::gpt::create(small(), kernels::cpu_backend{}, nn::model_part{{2, 4}}).value();
  behind.initialize(7);
  for (auto* const m : {&whole, &behind}) {
    const auto began = m->initial_embedding();
    CHECK(began.tokens == fresh.at("wte.weight"));
    CHECK(began.positions == fresh.at("wpe.weight"));
  }
}

TEST_CASE("language model: a part that grew to the whole computes as the whole model", "[nn][fast]") {
  const auto precision = GENERATE(as<nn::precision>{}, nn::precision::f32, nn::precision::bf16);
  auto whole = nn::gpt::create(small(precision)).value();
  auto m = nn::gpt::create(small(precision), kernels::cpu_backend{}, nn::model_part{{2, 4}}).value();
  REQUIRE(m.hold(nn::model_part{}));
  const std::vector<std::int32_t> tokens{1, 2, 3, 4, 5, 6, 7, 8};
  CHECK(m.forward_backward(tokens, tokens, 1, 1, 0).value() == whole.forward_backward(tokens, tokens, 1, 1, 0).value());
  CHECK(std::equal(m.parameters().gradients().begin(), m.parameters().gradients().end(),
                   whole.parameters().gradients().begin()));
}

TEST_CASE("language model: a part that cannot be leaves the model as it was", "[nn][fast]") {
  auto m = nn::gpt::create(small(), kernels::cpu_backend{}, nn::model_part{{0, 2}}).value();
  const auto before = values_of(m.parameters());
  CHECK(m.hold(nn::model_part{{3, 9}}).error().code == errc::invalid_argument);
  CHECK(values_of(m.parameters()) == before);
  CHECK(m.part().holds(0));
}

TEST_CASE("language model: the length of a block that is not here", "[nn][fast]") {
  auto whole = nn::gpt::create(small()).value();
  std::int64_t sum = 0;
  for (std::int64_t b = 0; b < 4; ++b) sum += whole.block_length(b);
  CHECK(sum == whole.parameters().length());
  CHECK(whole.block_length(1) == whole.block_length(2));
  CHECK(whole.block_length(0) > whole.block_length(1));
}

}  // namespace causeway
