// SPDX-License-Identifier: Apache-2.0
#include <causeway/stage/subspace_adamw.hpp>

#include "stage/activation_checks.hpp"
#include "support/catch.hpp"

#include <causeway/io/archive.hpp>
#include <causeway/kernels/embedding.hpp>
#include <causeway/stage/subspace.hpp>

#include <cmath>
#include <numeric>

using namespace causeway;
using activation_checks::normal;
using stage::confined;
using stage::subspace_adamw;
using stage::subspace_basis;

namespace {

constexpr std::int64_t width = 32, inputs_count = 20, entries = 9, rank = 4;
const std::vector<stage::confined_pieces> pieces{
    {"proj.weight", confined::columns}, {"table", confined::rows}, {"proj.bias", confined::rows}};

/// A weight that reads, and three pieces that write into the residual stream and start in the subspace.
parameter_store model(const subspace_basis& basis) {
  parameter_store all;
  all.add("h.0.read.weight", parameter_kind::matrix, inputs_count, width);
  all.add("h.0.proj.weight", parameter_kind::matrix, width, inputs_count);
  all.add("h.0.proj.bias", parameter_kind::vector, 1, width);
  all.add("table", parameter_kind::embedding, entries, width);
  all.allocate();
  thread_pool pool{1};
  for (std::size_t s = 0; s < 4; ++s) {
    const auto start = normal(static_cast<std::size_t>(all.segments()[s].size()), s + 1);
    std::copy(start.begin(), start.end(), all.value(s));
  }
  const auto piece = [&](std::size_t s) {
    return std::span{all.value(s), static_cast<std::size_t>(all.segments()[s].size())};
  };
  basis.project_columns(pool, piece(1));
  basis.project_rows(pool, piece(2));
  basis.project_rows(pool, piece(3));
  return all;
}

void fill_gradients(parameter_store& all, std::uint64_t seed) {
  for (std::size_t s = 0; s < all.segments().size(); ++s) {
    const auto g = normal(static_cast<std::size_t>(all.segments()[s].size()), mix(seed, s));
    std::copy(g.begin(), g.end(), all.gradient(s));
  }
}

/// How far a piece is outside of the subspace, over its size.
double outside(const subspace_basis& basis, parameter_store& all, std::size_t s) {
  thread_pool pool{1};
  std::vector<float> values(all.value(s), all.value(s) + all.segments()[s].size()), inside = values;
  s == 1 ? basis.project_columns(pool, inside) : basis.project_rows(pool, inside);
  double cut = 0, size = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    cut += std::pow(static_cast<double>(values[i] - inside[i]), 2);
    size += std::pow(static_cast<double>(values[i]), 2);
  }
  return std::sqrt(cut / size);
}

}  // namespace

TEST_CASE("subspace_adamw: confined weights stay in the subspace, where AdamW leaves it at once", "[stage][fast]") {
  thread_pool pool{1};
  const auto basis = *subspace_basis::random(1, width, rank);
  auto ours = model(basis), plain = model(basis);
  subspace_adamw optimizer{basis, pieces};
  optim::adamw adamw;
  optimizer.reset(ours.length());
  adamw.reset(plain.length());
  for (std::uint64_t step = 0; step < 300; ++step) {
    fill_gradients(ours, step);
    optimizer.step(pool, ours.view(), {.learning_rate = 1e-2F});
  }
  for (const std::size_t s : {1U, 2U, 3U}) REQUIRE(outside(basis, ours, s) < 3e-6);
  fill_gradients(plain, 0);
  basis.project_columns(
      pool, {plain.gradient(1), static_cast<std::size_t>(width * inputs_count)});  // even of projected gradients
  adamw.step(pool, plain.view(), {.learning_rate = 1e-2F});
  REQUIRE(outside(basis, plain, 1) > 1e-3);
}

TEST_CASE("subspace_adamw: the update is the one on paper, one second moment for each vector", "[stage][fast]") {
  thread_pool pool{1};
  const auto basis = *subspace_basis::random(2, width, rank);
  auto all = model(basis);
  const optim::adamw_options options{.beta1 = 0.9F, .beta2 = 0.95F, .epsilon = 1e-8F, .weight_decay = 0.1F};
  subspace_adamw optimizer{basis, pieces, options};
  optimizer.reset(all.length());
  std::vector<double> p(all.value(1), all.value(1) + width * inputs_count), m(p.size()), v(inputs_count);
  std::vector<double> bias(all.value(2), all.value(2) + width), bias_m(width);
  double bias_v = 0;
  for (int t = 1; t <= 3; ++t) {
    fill_gradients(all, static_cast<std::uint64_t>(t));
    std::vector<float> g(all.gradient(1), all.gradient(1) + width * inputs_count),
        bias_g(all.gradient(2), all.gradient(2) + width);
    optimizer.step(pool, all.view(), {.learning_rate = 1e-2F, .gradient_scale = 0.5F});
    basis.project_columns(pool, g);
    basis.project_rows(pool, bias_g);
    const double c1 = 1 - std::pow(0.9, t), c2 = 1 - std::pow(0.95, t);
    for (std::size_t j = 0; j < inputs_count; ++j) {
      double mean = 0;
      for (std::size_t i = 0; i < width; ++i)
        mean += std::pow(0.5 * static_cast<double>(g[i * inputs_count + j]), 2) / width;
      v[j] = 0.95 * v[j] + 0.05 * mean;
      for (std::size_t i = 0; i < width; ++i) {
        const std::size_t at = i * inputs_count + j;
        m[at] = 0.9 * m[at] + 0.1 * 0.5 * static_cast<double>(g[at]);
        p[at] -= 1e-2 * (m[at] / c1 / (std::sqrt(v[j] / c2) + 1e-8) + 0.1 * p[at]);
      }
    }
    double mean = 0;
    for (const float x : bias_g) mean += std::pow(0.5 * static_cast<double>(x), 2) / width;
    bias_v = 0.95 * bias_v + 0.05 * mean;
    for (std::size_t i = 0; i < width; ++i) {  // a vector: not decayed
      bias_m[i] = 0.9 * bias_m[i] + 0.1 * 0.5 * static_cast<double>(bias_g[i]);
      bias[i] -= 1e-2 * bias_m[i] / c1 / (std::sqrt(bias_v / c2) + 1e-8);
    }
  }
  for (std::size_t i = 0; i < p.size(); ++i) REQUIRE(std::abs(static_cast<double>(all.value(1)[i]) - p[i]) < 2e-6);
  for (std::size_t i = 0; i < width; ++i) REQUIRE(std::abs(static_cast<double>(all.value(2)[i]) - bias[i]) < 2e-6);
}

TEST_CASE("subspace_adamw: what is not confined moves as under AdamW, to the bit", "[stage][fast]") {
  thread_pool one{1}, three{3};
  const auto basis = *subspace_basis::random(3, width, rank);
  auto ours = model(basis), plain = model(basis), threaded = model(basis);
  subspace_adamw optimizer{basis, pieces}, other{basis, pieces};
  optim::adamw adamw;
  optimizer.reset(ours.length());
  other.reset(ours.length());
  adamw.reset(plain.length());
  for (std::uint64_t step = 0; step < 3; ++step) {
    for (auto* const m : {&ours, &plain, &threaded}) fill_gradients(*m, step);
    optimizer.step(one, ours.view(), {});
    other.step(three, threaded.view(), {});
    adamw.step(one, plain.view(), {});
  }
  REQUIRE(std::equal(ours.value(0), ours.value(0) + width * inputs_count, plain.value(0)));
  REQUIRE(std::equal(ours.values().begin(), ours.values().end(), threaded.values().begin()));
}

TEST_CASE("subspace_adamw: saved, loaded and continued is not to be told from going on", "[stage][fast]") {
  thread_pool pool{1};
  const auto basis = *subspace_basis::random(4, width, rank);
  auto all = model(basis);
  subspace_adamw optimizer{basis, pieces}, loaded{*subspace_basis::random(5, width, rank), pieces};
  optimizer.reset(all.length());
  fill_gradients(all, 1);
  optimizer.step(pool, all.view(), {});
  const auto saved = io::to_bytes(optimizer);
  REQUIRE(saved);
  REQUIRE(io::from_bytes(*saved, loaded));
  auto copy = model(basis);
  std::copy(all.values().begin(), all.values().end(), copy.values().begin());
  for (auto* const m : {&all, &copy}) fill_gradients(*m, 2);
  optimizer.step(pool, all.view(), {});
  loaded.step(pool, copy.view(), {});
  REQUIRE(std::equal(all.values().begin(), all.values().end(), copy.values().begin()));
}

TEST_CASE("subspace_adamw: state that is divided goes on with its pieces, to the bit", "[stage][fast]") {
  thread_pool pool{1};
  const auto basis = *subspace_basis::random(1, width, rank);
  auto all = model(basis), twin = model(basis);
  subspace_adamw optimizer{basis, pieces}, divided{basis, pieces};
  const auto three_steps = [&](subspace_adamw& o, parameter_store& of) {
    o.reset(of.length());
    for (std::uint64_t step = 0; step < 3; ++step) {
      fill_gradients(of, step);
      o.step(pool, of.view(), {.learning_rate = 1e-2F});
    }
  };
  three_steps(optimizer, all);
  three_steps(divided, twin);
  parameter_store part;  // the last two pieces
  const auto segments = all.segments();
  for (std::size_t s = segments.size() - 2; s < segments.size(); ++s) {
    part.add(segments[s].name, segments[s].kind, segments[s].rows, segments[s].columns, segments[s].block);
  }
  part.allocate();
  optim::divide(divided, segments, part.segments(), part.length(), 3);
  fill_gradients(all, 3);
  for (std::size_t s = 0; s < 2; ++s) {
    const std::size_t of_all = segments.size() - 2 + s;
    std::copy_n(all.value(of_all), segments[of_all].size(), part.value(s));
    std::copy_n(all.gradient(of_all), segments[of_all].size(), part.gradient(s));
  }
  optimizer.step(pool, all.view(), {.learning_rate = 1e-2F});
  divided.step(pool, part.view(), {.learning_rate = 1e-2F});
  for (std::size_t s = 0; s < 2; ++s) {
    const std::size_t of_all = segments.size() - 2 + s;
    CHECK(std::equal(part.value(s), part.value(s) + part.segments()[s].size(), all.value(of_all)));
  }
}

TEST_CASE("subspace_adamw: a new basis takes weights and momentum along", "[stage][fast]") {
  thread_pool pool{1};
  const auto basis = *subspace_basis::random(6, width, rank), next = *subspace_basis::random(7, width, rank);
  auto all = model(basis);
  subspace_adamw optimizer{basis, pieces};
  optimizer.reset(all.length());
  fill_gradients(all, 1);
  optimizer.step(pool, all.view(), {});
  const std::vector<float> read(all.value(0), all.value(0) + width * inputs_count);
  REQUIRE(outside(next, all, 1) > 0.5);
  optimizer.use(pool, all.view(), next);
  REQUIRE(std::equal(read.begin(), read.end(), all.value(0)));
  for (std::uint64_t step = 0; step < 5; ++step) {  // momentum of the old basis would carry them out again
    fill_gradients(all, step);
    optimizer.step(pool, all.view(), {});
  }
  for (const std::size_t s : {1U, 2U, 3U}) REQUIRE(outside(next, all, s) < 3e-6);
}

TEST_CASE("subspace_adamw: of a table only the changes are confined, through a new basis too", "[stage][fast]") {
  thread_pool pool{1};
  const auto basis = *subspace_basis::random(8, width, rank), next = *subspace_basis::random(9, width, rank);
  auto all = model(basis);
  const auto anywhere = normal(entries * width, 30);
  std::copy(anywhere.begin(), anywhere.end(), all.value(3));
  const std::vector<float> initial{all.values().begin(), all.values().end()};
  auto with_table = pieces;
  with_table[1].what = confined::row_changes;
  subspace_adamw optimizer{basis, with_table, {.weight_decay = 0.5F}};
  optimizer.reset(all.length());
  const auto change_outside = [&](const subspace_basis& b) {
    parameter_store change = model(b);
    const auto at = static_cast<std::size_t>(all.segments()[3].offset);
    for (std::size_t i = 0; i < entries * width; ++i) change.value(3)[i] = all.value(3)[i] - initial[at + i];
    return outside(b, change, 3);
  };
  for (std::uint64_t step = 0; step < 20; ++step) {
    fill_gradients(all, step);
    optimizer.step(pool, all.view(), {.learning_rate = 1e-2F});
  }
  REQUIRE(change_outside(basis) < 1e-5);
  REQUIRE(change_outside(next) > 0.5);
  optimizer.use(pool, all.view(), next, initial);
  fill_gradients(all, 50);
  optimizer.step(pool, all.view(), {.learning_rate = 1e-2F});
  REQUIRE(change_outside(next) < 1e-5);
}

TEST_CASE("subspace_adamw: under it the subspace codec stays exact as training goes on", "[stage][fast]") {
  thread_pool pool{1};
  const stage::subspace_options options{.rank = rank, .seed = 10};
  const auto basis = *subspace_basis::random(options.seed, width, rank);
  auto all = model(basis);
  const auto anywhere = normal(entries * width, 31);
  std::copy(anywhere.begin(), anywhere.end(), all.value(3));
  auto with_table = pieces;
  with_table[1].what = confined::row_changes;
  subspace_adamw optimizer{basis, with_table};
  optimizer.reset(all.length());
  constexpr std::int64_t tokens = 12;
  std::vector<std::int32_t> inputs(tokens);
  std::vector<float> e(tokens * width), x(tokens * width);
  for (std::size_t i = 0; i < inputs.size(); ++i) inputs[i] = static_cast<std::int32_t>(i * 5 % entries);
  kernels::embedding_forward(pool, inputs.data(), all.value(3), nullptr, e.data(), 1, tokens, width);  // before training
  for (std::uint64_t step = 0; step < 200; ++step) {
    fill_gradients(all, step);
    optimizer.step(pool, all.view(), {.learning_rate = 1e-2F});
  }
  kernels::embedding_forward(pool, inputs.data(), all.value(3), nullptr, x.data(), 1, tokens, width);
  const auto h = normal(tokens * inputs_count, 32);
  for (std::size_t t = 0; t < tokens; ++t) {
    for (std::size_t o = 0; o < width; ++o) {
      x[t * width + o] += all.value(2)[o];
      for (std::size_t i = 0; i < inputs_count; ++i) {
        x[t * width + o] += h[t * inputs_count + i] * all.value(1)[o * inputs_count + i];
      }
    }
  }
  const stage::crossing c{.rows = tokens, .width = width, .base = e};
  stage::subspace<> sender{options}, receiver{options};
  const auto got = activation_checks::decode(receiver, pool, c, activation_checks::encode(sender, pool, c, x));
  float worst = 0, moved = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    worst = std::max(worst, std::abs(got[i] - x[i]));
    moved = std::max(moved, std::abs(x[i] - e[i]));
  }
  REQUIRE(moved > 1);
  REQUIRE(worst < 2e-5F * moved);
}
