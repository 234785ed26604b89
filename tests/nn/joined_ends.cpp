// SPDX-License-Identifier: Apache-2.0
// Models whose embedding and output layer are one block, which comes before the others and after them.

#include <causeway/core/rng.hpp>
#include <causeway/nn/language_model.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "support/models.hpp"

namespace causeway::nn {
namespace {

gpt_options small_gpt() { return {.layers = 3, .heads = 2, .width = 32, .context = 16, .vocabulary = 50, .dropout = 0.1F}; }
llama_options small_llama() {
  return {.layers = 3, .heads = 4, .kv_heads = 2, .width = 32, .hidden = 48, .context = 16, .vocabulary = 50};
}

template <class Model>
Model make(const typename Model::options_type& o) {
  auto m = Model::create(o, kernels::cpu_backend{1});
  REQUIRE(m);
  return std::move(*m);
}

std::vector<std::int32_t> tokens(std::size_t count, std::uint64_t stream) {
  rng r{11, stream};
  std::vector<std::int32_t> t(count);
  for (auto& v : t) v = static_cast<std::int32_t>(r.below(50));
  return t;
}

const std::vector<std::int32_t> inputs = tokens(32, 1);
const std::vector<std::int32_t> targets = tokens(32, 2);

using named_values = std::map<std::string, std::vector<float>>;

// By name, whatever their order.
named_values by_name(const parameter_store& store, std::span<const float> flat) {
  named_values all;
  for (const auto& s : store.segments()) all[s.name] = {flat.begin() + s.offset, flat.begin() + s.offset + s.size()};
  return all;
}

template <class Model>
named_values gradients(Model& m) {
  return by_name(m.parameters(), m.parameters().gradients());
}

template <class Model>
void begin(Model& m) {
  std::fill(m.parameters().gradients().begin(), m.parameters().gradients().end(), 0.0F);
}

template <class Model>
double whole(Model& m) {
  begin(m);
  return m.forward_backward(inputs, targets, 2, 1.0F / 32, 9).value();
}

std::vector<float> copy_of(const tensor& t) { return {t.span<float>().begin(), t.span<float>().end()}; }

// The ends, the blocks in this order, and the ends again; a tape and a boundary for each, as over a network.
template <class Model>
double around(Model& m, const std::vector<std::int64_t>& order) {
  begin(m);
  const micro_batch b{inputs, targets, 2, 1.0F / 32, 9};
  std::vector<block_range> way{{0, 1}};
  for (const std::int64_t block : order) way.push_back({block, block + 1});
  way.push_back({0, 1});
  std::vector<typename Model::tape_type> tapes;
  std::vector<stage_pass> passes;
  std::vector<std::vector<float>> boundaries(1);
  const auto arrived = [&m](std::vector<float>& v) {
    return v.empty() ? tensor{} : tensor::borrow(v.data(), {32, m.width()});
  };
  for (const block_range& r : way) {
    tapes.push_back(m.make_tape());
    auto s = m.forward_stage(tapes.back(), r, b, arrived(boundaries.back()));
    REQUIRE(s);
    REQUIRE(static_cast<bool>(s->output.value) == (tapes.size() < way.size()));
    if (s->output.value) boundaries.push_back(copy_of(s->output.value));
    passes.push_back(std::move(*s));
  }
  std::vector<float> d;
  for (std::size_t i = way.size(); i-- > 0;) {
    const auto back = m.backward_stage(tapes[i], passes[i], arrived(d));
    REQUIRE(back);
    REQUIRE(static_cast<bool>(*back) == (i > 0));
    if (i > 0) d = copy_of(*back);
  }
  return passes.back().loss;
}

template <class Model>
void set(Model& m, const named_values& values) {
  for (std::size_t i = 0; i < m.parameters().segments().size(); ++i) {
    const auto& from = values.at(m.parameters().segments()[i].name);
    std::copy(from.begin(), from.end(), m.parameters().value(i));
  }
  m.parameters().touch();
}

// A tied table's gradient is added up in another order.
bool close(const std::vector<float>& a, const std::vector<float>& b) {
  float most = 0, apart = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    most = std::max(most, std::abs(a[i]));
    apart = std::max(apart, std::abs(a[i] - b[i]));
  }
  return apart <= 1e-6F * most;
}
bool close(const named_values& a, const named_values& b) {
  return a.size() == b.size() &&
         std::all_of(a.begin(), a.end(), [&](const auto& p) { return close(p.second, b.at(p.first)); });
}

// The values of two blocks, the other way round.
named_values turned(const named_values& values, const std::string& second, const std::string& third) {
  named_values all;
  for (const auto& [name, v] : values) {
    if (name.starts_with(second))
      all[third + name.substr(second.size())] = v;
    else
      all[name.starts_with(third) ? second + name.substr(third.size()) : name] = v;
  }
  return all;
}

// A model with joined ends computes what one without does, whole and stage by stage; with its second and third block the
// other way round, what one does whose blocks are the other way round.
template <class Model>
void check_joined(typename Model::options_type o, const std::string& second, const std::string& third) {
  Model plain = make<Model>(o);
  o.joined_ends = true;
  Model joined = make<Model>(o);
  REQUIRE(joined.blocks() == plain.blocks() + 1);
  CHECK(joined.config_hash() != plain.config_hash());
  const named_values values = by_name(plain.parameters(), plain.parameters().values());
  set(joined, values);
  const double expected = whole(plain);
  CHECK(whole(joined) == expected);
  CHECK((gradients(joined) == gradients(plain)));
  CHECK(around(joined, {1, 2, 3}) == expected);
  CHECK(close(gradients(joined), gradients(plain)));
  CHECK(*joined.evaluate(inputs, targets, 2) == *plain.evaluate(inputs, targets, 2));

  const double swapped = around(joined, {1, 3, 2});
  set(plain, turned(values, second, third));
  CHECK(whole(plain) == swapped);
  CHECK(swapped != expected);
  CHECK(close(turned(gradients(joined), second, third), gradients(plain)));
}

}  // namespace

TEST_CASE("joined ends: stages come in any order, and the ends twice", "[nn][fast]") {
  const bool tie = GENERATE(false, true), recompute = GENERATE(false, true);
  CAPTURE(tie, recompute);
  auto g = small_gpt();
  g.tie = tie, g.recompute = recompute, g.dropout = 0;  // its stream is a layer's number
  check_joined<gpt>(g, "h.1.", "h.2.");
  auto l = small_llama();
  l.tie = tie, l.recompute = recompute;
  check_joined<llama>(l, "model.layers.1.", "model.layers.2.");
}

TEST_CASE("joined ends: they are held with the first block, and are a stage of their own", "[nn][fast]") {
  auto o = small_gpt();
  o.joined_ends = true;
  auto ends = gpt::create(o, kernels::cpu_backend{1}, model_part{{0, 1}});
  auto blocks = gpt::create(o, kernels::cpu_backend{1}, model_part{{1, 3}});
  auto three = gpt::create(o, kernels::cpu_backend{1}, model_part{{0, 3}});
  REQUIRE((ends && blocks && three));
  CHECK(ends->tied_table() == not_held);
  for (const auto& s : ends->parameters().segments()) CHECK((s.block == 0 && !s.name.starts_with("h.")));
  for (const auto& s : blocks->parameters().segments()) CHECK((s.block > 0 && s.name.starts_with("h.")));
  CHECK(ends->block_length(0) == ends->parameters().length());
  CHECK(ends->block_length(1) + ends->block_length(2) == blocks->parameters().length());
  CHECK(blocks->initial_embedding().tokens == ends->initial_embedding().tokens);
  CHECK(ends->initial_embedding().tokens.size() == static_cast<std::size_t>(o.vocabulary * o.width));
  const micro_batch b{inputs, targets, 2, 1.0F, 0};
  auto t = three->make_tape();
  CHECK(three->forward_stage(t, {0, 2}, b).error().code == errc::unsupported);
  CHECK_FALSE(three->forward_stage(t, {1, 3}, b));  // no boundary
  CHECK(three->forward_stage(t, {0, 1}, b));
  CHECK_FALSE(gpt::create(o, kernels::cpu_backend{1}, model_part{{1, 5}}));  // it has four
}

}  // namespace causeway::nn
