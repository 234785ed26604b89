// SPDX-License-Identifier: Apache-2.0
#include <causeway/nn/language_model.hpp>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "support/models.hpp"

namespace {

std::atomic<std::uint64_t> heap_allocations{0};

}  // namespace

// Counts every `new` of this program.
CAUSEWAY_NOINLINE void* operator new(std::size_t bytes) {
  ++heap_allocations;
  if (void* p = std::malloc(bytes == 0 ? 1 : bytes)) return p;
  throw std::bad_alloc{};
}
CAUSEWAY_NOINLINE void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  ++heap_allocations;
  return std::malloc(bytes == 0 ? 1 : bytes);
}
CAUSEWAY_NOINLINE void operator delete(void* p) noexcept { std::free(p); }
CAUSEWAY_NOINLINE void operator delete(void* p, std::size_t) noexcept { std::free(p); }

namespace causeway::nn {
namespace {

gpt_options small_gpt() {
  gpt_options o;
  o.layers = 3, o.heads = 2, o.width = 32, o.context = 16, o.vocabulary = 50;
  return o;
}

llama_options small_llama() {
  llama_options o;
  o.layers = 3, o.heads = 4, o.kv_heads = 2, o.width = 32, o.hidden = 48, o.context = 16, o.vocabulary = 50;
  return o;
}

template <class Model>
Model make(typename Model::options_type o, unsigned threads = 1) {
  auto m = Model::create(o, kernels::cpu_backend{threads});
  REQUIRE(m);
  m->activation_memory().poison(true);
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

void zero_gradients(parameter_store& s) { std::fill(s.gradients().begin(), s.gradients().end(), 0.0F); }

std::vector<float> gradients(parameter_store& s) { return {s.gradients().begin(), s.gradients().end()}; }

template <class Model>
std::pair<double, std::vector<float>> whole(Model& m) {
  zero_gradients(m.parameters());
  const auto loss = m.forward_backward(inputs, targets, 2, 1.0F / 32, 9);
  REQUIRE(loss);
  return {*loss, gradients(m.parameters())};
}

// The same through stages cut at `cuts`, each with a tape of its own and boundaries that were copied, as over a network.
template <class Model>
std::pair<double, std::vector<float>> in_stages(Model& m, const std::vector<std::int64_t>& cuts) {
  zero_gradients(m.parameters());
  const micro_batch b{inputs, targets, 2, 1.0F / 32, 9};
  std::vector<typename Model::tape_type> tapes;
  std::vector<stage_pass> passes;
  std::vector<std::vector<float>> boundaries(1);
  for (std::size_t i = 0; i + 1 < cuts.size(); ++i) {
    tapes.push_back(m.make_tape());
    const tensor boundary = i == 0 ? tensor{} : tensor::borrow(boundaries.back().data(), {32, m.width()});
    auto s = m.forward_stage(tapes.back(), {cuts[i], cuts[i + 1]}, b, boundary);
    REQUIRE(s);
    if (s->output.value) {
      const auto out = s->output.value.template span<float>();
      boundaries.emplace_back(out.begin(), out.end());
    }
    passes.push_back(std::move(*s));
  }
  std::vector<float> arriving;
  for (std::size_t i = passes.size(); i-- > 0;) {
    const tensor d = arriving.empty() ? tensor{} : tensor::borrow(arriving.data(), {32, m.width()});
    const auto back = m.backward_stage(tapes[i], passes[i], d);
    REQUIRE(back);
    REQUIRE(static_cast<bool>(*back) == (i > 0));
    if (i > 0) arriving.assign(back->template span<float>().begin(), back->template span<float>().end());
  }
  return {passes.back().loss, gradients(m.parameters())};
}

// Not compared by CHECK itself, which would print every gradient.
bool equal(const std::pair<double, std::vector<float>>& a, const std::pair<double, std::vector<float>>& b) {
  return a == b;
}

template <class Model>
void check_cuts(typename Model::options_type o) {
  Model m = make<Model>(o);
  const auto expected = whole(m);
  CHECK(equal(in_stages(m, {0, 3}), expected));
  CHECK(equal(in_stages(m, {0, 1, 3}), expected));
  CHECK(equal(in_stages(m, {0, 1, 2, 3}), expected));
}

}  // namespace

TEST_CASE("language model: cut into stages, loss and gradients are bit-equal", "[nn][fast]") {
  const auto p = GENERATE(as<precision>{}, precision::f32, precision::bf16);
  const auto recompute = GENERATE(false, true);
  CAPTURE(p, recompute);
  auto g = small_gpt();
  g.precision = p, g.recompute = recompute, g.dropout = 0.1F;
  check_cuts<gpt>(g);
  auto l = small_llama();
  l.precision = p, l.recompute = recompute;
  check_cuts<llama>(l);
}

TEST_CASE("language model: two micro-batches in flight through two stages equal one after the other", "[nn][fast]") {
  auto o = small_gpt();
  o.tie = false;  // a table used at both ends would be added to in another order
  gpt m = make<gpt>(o);
  const std::vector<std::int32_t> other = tokens(32, 3);
  const micro_batch first{inputs, targets, 2, 1.0F, 1};
  const micro_batch second{other, targets, 2, 1.0F, 2};
  zero_gradients(m.parameters());
  REQUIRE(m.forward_backward(inputs, targets, 2, 1.0F, 1));
  REQUIRE(m.forward_backward(other, targets, 2, 1.0F, 2));
  const auto expected = gradients(m.parameters());
  zero_gradients(m.parameters());
  std::vector<gpt::tape_type> tapes;
  for (int i = 0; i < 4; ++i) tapes.push_back(m.make_tape());
  auto a0 = m.forward_stage(tapes[0], {0, 1}, first);
  auto b0 = m.forward_stage(tapes[1], {0, 1}, second);
  REQUIRE((a0 && b0));
  auto a1 = m.forward_stage(tapes[2], {1, 3}, first, a0->output.value);
  auto da = m.backward_stage(tapes[2], *a1);
  auto b1 = m.forward_stage(tapes[3], {1, 3}, second, b0->output.value);
  REQUIRE((a1 && b1 && da));
  REQUIRE(m.backward_stage(tapes[0], *a0, *da));
  auto db = m.backward_stage(tapes[3], *b1);
  REQUIRE(db);
  REQUIRE(m.backward_stage(tapes[1], *b0, *db));
  CHECK((gradients(m.parameters()) == expected));
}

TEST_CASE("language model: stages on models that hold only their part are bit-equal to the whole", "[nn][fast]") {
  auto o = small_gpt();
  o.tie = GENERATE(false, true);
  o.recompute = GENERATE(false, true);
  o.dropout = 0.1F;
  const bool split = GENERATE(false, true);
  CAPTURE(o.tie, o.recompute, split);
  gpt m = make<gpt>(o);
  const auto expected = whole(m);
  auto front = gpt::create(o, kernels::cpu_backend{1}, model_part{{0, 1}});
  auto back = gpt::create(o, kernels::cpu_backend{1}, model_part{{1, 3}});
  REQUIRE((front && back));
  CHECK(front->config_hash() == m.config_hash());
  CHECK_FALSE(front->forward_backward(inputs, targets, 2, 1.0F, 0));
  const micro_batch b{inputs, targets, 2, 1.0F / 32, 9};
  auto t0 = front->make_tape();
  auto t1 = back->make_tape();
  const auto a = front->forward_stage(t0, {0, 1}, b);
  REQUIRE(a);
  const auto z = back->forward_stage(t1, {1, 3}, b, a->output.value);
  REQUIRE(z);
  CHECK(z->loss == expected.first);
  if (split) {
    const auto d = back->backward_inputs(t1, *z);
    REQUIRE(d);
    REQUIRE(front->backward_inputs(t0, *a, *d));
    REQUIRE(front->backward_weights(t0));
    REQUIRE(back->backward_weights(t1));
  } else {
    const auto d = back->backward_stage(t1, *z);
    REQUIRE(d);
    REQUIRE(front->backward_stage(t0, *a, *d));
  }
  // Parameter by parameter; a tied table's gradient is the sum of what the two ends have.
  std::int64_t compared = 0;
  auto& all = m.parameters();
  for (std::size_t i = 0; i < all.segments().size(); ++i) {
    const auto& wanted = all.segments()[i];
    std::vector<float> sum(static_cast<std::size_t>(wanted.size()), 0.0F);
    for (gpt* part : {&*back, &*front}) {
      auto& store = part->parameters();
      for (std::size_t j = 0; j < store.segments().size(); ++j) {
        if (store.segments()[j].name != wanted.name) continue;
        for (std::size_t k = 0; k < sum.size(); ++k) sum[k] += store.gradient(j)[k];
        compared += wanted.size();
      }
    }
    const std::vector<float> whole_gradient(all.gradient(i), all.gradient(i) + wanted.size());
    float off = 0;
    for (std::size_t k = 0; k < sum.size(); ++k) off = std::max(off, std::abs(sum[k] - whole_gradient[k]));
    CAPTURE(wanted.name);
    CHECK(off <=
          (o.tie && wanted.name == "wte.weight" ? 1e-6F : 0.0F));  // the whole adds token by token to the head's part
  }
  CHECK(compared == all.count() + (o.tie ? 50 * 32 : 0));
}

TEST_CASE("language model: a forgetful pass keeps nothing and gives the bits of the recorded one", "[nn][fast]") {
  auto o = small_gpt();
  o.dropout = 0.2F;
  gpt m = make<gpt>(o);
  const micro_batch b{inputs, targets, 2, 1.0F / 32, 9};
  auto t = m.make_tape();
  const auto kept = m.forward_stage(t, {0, 2}, b);
  REQUIRE(kept);
  const auto value = kept->output.value.span<float>();
  const std::vector<float> expected(value.begin(), value.end());
  t.clear();
  const std::size_t before = m.activation_memory().in_use();
  const auto again = m.forward_stage(t, {0, 2}, b, {}, pass_kind::forgetful);
  REQUIRE(again);
  const auto forgotten = again->output.value.span<float>();
  CHECK((std::vector<float>(forgotten.begin(), forgotten.end()) == expected));
  CHECK(m.activation_memory().in_use() <= before + forgotten.size_bytes());
  const auto plain = m.forward_stage(t, {0, 2}, b, {}, pass_kind::evaluation);
  REQUIRE(plain);
  const auto values = plain->output.value.span<float>();
  CHECK_FALSE((std::vector<float>(values.begin(), values.end()) == expected));  // no dropout
}

TEST_CASE("language model: recomputation changes memory, not a bit of the result", "[nn][fast]") {
  auto o = small_gpt();
  o.dropout = 0.2F;
  o.precision = GENERATE(as<precision>{}, precision::f32, precision::bf16);
  gpt plain = make<gpt>(o);
  o.recompute = true;
  gpt again = make<gpt>(o);
  CHECK(equal(whole(plain), whole(again)));
  CHECK(again.activation_memory().peak_in_use() < plain.activation_memory().peak_in_use());
}

TEST_CASE("language model: a steady training step asks for no memory", "[nn][fast]") {
  auto o = small_gpt();
  o.precision = GENERATE(as<precision>{}, precision::f32, precision::bf16);
  o.recompute = GENERATE(false, true);
  o.dropout = GENERATE(0.0F, 0.1F);
  gpt m = make<gpt>(o, 2);
  const auto step = [&m](std::uint64_t stream) {
    const auto loss = m.forward_backward(inputs, targets, 2, 1.0F / 32, stream);
    m.parameters().touch();
    return loss.has_value();
  };
  for (std::uint64_t i = 0; i < 2; ++i) REQUIRE(step(i));
  const std::uint64_t heap = heap_allocations;
  const std::uint64_t pool = m.activation_memory().allocations();
  const std::size_t scratch = m.backend().memory().capacity();
  bool all = true;
  for (std::uint64_t i = 2; i < 5; ++i) all = step(i) && all;
  CHECK(heap_allocations - heap == 0);
  CHECK(all);
  CHECK(m.activation_memory().allocations() == pool);
  CHECK(m.backend().memory().capacity() == scratch);
  CHECK(m.activation_memory().in_use() == 0);
}

TEST_CASE("language model: gradients of micro-batches add up to those of the batch", "[nn][fast]") {
  gpt m = make<gpt>(small_gpt());
  const auto [loss, expected] = whole(m);
  zero_gradients(m.parameters());
  double sum = 0.0;
  for (std::size_t i = 0; i < 2; ++i) {
    const std::span in{inputs.data() + 16 * i, 16};
    const std::span out{targets.data() + 16 * i, 16};
    sum += *m.forward_backward(in, out, 1, 1.0F / 32, 0);
  }
  CHECK(sum == Approx(loss).epsilon(1e-6));
  const auto actual = gradients(m.parameters());
  for (std::size_t i = 0; i < actual.size(); ++i) REQUIRE(actual[i] == Approx(expected[i]).margin(1e-6));
}

TEST_CASE("language model: evaluation gives the training loss, leaves gradients alone and drops nothing", "[nn][fast]") {
  auto o = small_gpt();
  gpt m = make<gpt>(o);
  const auto [loss, expected] = whole(m);
  const auto evaluated = m.evaluate(inputs, targets, 2);
  REQUIRE(evaluated);
  CHECK(*evaluated == loss);
  CHECK((gradients(m.parameters()) == expected));
  o.dropout = 0.5F;
  gpt dropping = make<gpt>(o);
  CHECK(*dropping.evaluate(inputs, targets, 2) == loss);
  CHECK(*dropping.forward_backward(inputs, targets, 2, 1.0F, 1) != loss);
}

TEST_CASE("language model: logits of the next token are those that the loss is made of", "[nn][fast]") {
  const auto check = [](auto m) {
    const std::size_t length = 7;
    std::vector<float> logits(50);
    double sum = 0.0;
    for (std::size_t n = 1; n <= length; ++n) {
      REQUIRE(m.next_token_logits(std::span{inputs}.first(n), logits));
      double total = 0.0;
      for (const float v : logits) total += std::exp(static_cast<double>(v));
      sum += std::log(total) - static_cast<double>(logits[static_cast<std::size_t>(targets[n - 1])]);
    }
    CHECK(*m.evaluate(std::span{inputs}.first(length), std::span{targets}.first(length), 1) == Approx(sum).epsilon(1e-5));
  };
  check(make<gpt>(small_gpt()));
  check(make<llama>(small_llama()));
}

TEST_CASE("language model: bf16 copies follow the parameters when told", "[nn][fast]") {
  auto o = small_gpt();
  o.precision = precision::bf16;
  gpt m = make<gpt>(o);
  const double before = *m.evaluate(inputs, targets, 2);
  for (float& v : m.parameters().values()) v *= 1.5F;
  m.parameters().touch();
  const double after = *m.evaluate(inputs, targets, 2);
  CHECK(after != before);
  m.initialize(0);
  CHECK(*m.evaluate(inputs, targets, 2) == before);
}

TEST_CASE("language model: a model may be moved, in mid-flight too", "[nn][fast]") {
  gpt a = make<gpt>(small_gpt());
  const auto expected = whole(a);
  zero_gradients(a.parameters());
  auto t = a.make_tape();
  auto pass = a.forward_stage(t, {0, 3}, {inputs, targets, 2, 1.0F / 32, 9});
  REQUIRE(pass);
  gpt b = std::move(a);
  REQUIRE(b.backward_stage(t, *pass));
  CHECK(pass->loss == expected.first);
  CHECK((gradients(b.parameters()) == expected.second));
}

TEST_CASE("language model: wrong input is an error and leaves the model usable", "[nn][fast]") {
  gpt m = make<gpt>(small_gpt());
  const auto expected = whole(m);
  auto wrong = inputs;
  wrong[5] = 50;
  CHECK_FALSE(m.forward_backward(wrong, targets, 2, 1.0F, 0));
  CHECK_FALSE(m.forward_backward(inputs, wrong, 2, 1.0F, 0));
  CHECK_FALSE(m.forward_backward(inputs, std::span{targets}.first(31), 2, 1.0F, 0));
  CHECK_FALSE(m.evaluate(inputs, targets, 1));  // longer than the context
  std::vector<float> logits(49);
  CHECK_FALSE(m.next_token_logits(inputs, logits));
  auto t = m.make_tape();
  CHECK_FALSE(m.forward_stage(t, {1, 3}, {inputs, targets, 2, 1.0F, 0}));  // no boundary
  CHECK((gradients(m.parameters()) == expected.second));
  CHECK(equal(whole(m), expected));
}

TEST_CASE("language model: positions with a negative target count for nothing", "[nn][fast]") {
  gpt m = make<gpt>(small_gpt());
  const std::vector<std::int32_t> none(32, -1);
  zero_gradients(m.parameters());
  CHECK(*m.forward_backward(inputs, none, 2, 1.0F, 0) == 0.0);
  for (const float g : m.parameters().gradients()) REQUIRE(g == 0.0F);
}

TEST_CASE("language model: results repeat bit for bit with the same number of threads", "[nn][fast]") {
  for (const unsigned threads : {1U, 2U, 3U}) {
    gpt a = make<gpt>(small_gpt(), threads);
    gpt b = make<gpt>(small_gpt(), threads);
    CHECK(equal(whole(a), whole(b)));
    CHECK(equal(whole(a), whole(b)));
  }
}

}  // namespace causeway::nn
