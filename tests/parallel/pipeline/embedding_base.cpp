// SPDX-License-Identifier: Apache-2.0
// Protocol Models in a pipeline: a model confined to a subspace, split, is the same model whole, and its boundaries carry
// coordinates only.
#include <causeway/parallel/pipeline/embedding_base.hpp>

#include "parallel/pipeline/confined_run.hpp"

namespace causeway::parallel {
namespace {

using namespace confined_run;

}  // namespace

TEST_CASE("embedding_base: a confined GPT in 2 and 4 stages is the confined GPT, a free one is not", "[parallel][fast]") {
  auto o = support::small_gpt();
  CHECK(apart<nn::gpt>(o, {.ranks = 1}, {.ranks = 2}) < 1e-4);
  CHECK(apart<nn::gpt>(o, {.ranks = 1}, {.ranks = 4}) < 1e-4);
  CHECK(apart<nn::gpt>(o, {.ranks = 1, .confined = false}, {.ranks = 2, .confined = false}) > 1e-2);
  o.tie = true;
  CHECK(apart<nn::gpt>(o, {.ranks = 1}, {.ranks = 4}) < 1e-4);
}

TEST_CASE("embedding_base: a boundary carries rank of width values, both ways", "[parallel][fast]") {
  constexpr std::uint64_t tokens = 64, boundaries = 3;
  const auto step_bytes = [](std::int64_t rank) {
    outcome few, more;
    train<nn::gpt>(support::small_gpt(), {.ranks = 4, .rank = rank, .steps = 2}, few);
    train<nn::gpt>(support::small_gpt(), {.ranks = 4, .rank = rank, .steps = 3}, more);
    return more.bytes - few.bytes;
  };
  const std::uint64_t whole = step_bytes(width);
  CHECK(whole - step_bytes(4) == boundaries * 2 * tokens * 12 * sizeof(float));
  CHECK(whole - step_bytes(1) == boundaries * 2 * tokens * 15 * sizeof(float));
}

TEST_CASE("embedding_base: is what the tables have outside of the subspace, for each token and position",
          "[parallel][fast]") {
  support::run_cluster(3, [&](std::uint32_t peer, environment env) {
    thread_pool pool{1};
    auto model = valued(nn::gpt::create(support::small_gpt()));
    model->initialize(peer);  // rank 0's counts
    stage::subspace<> codec{{.rank = 4, .seed = 7}};
    collective::group_view view{env.transport, {0, 1, 2}};
    embedding_base base;
    support::detail::check(base.share(view, pool, *model, codec, {{.channel = collective::channels::activations}, {}}));
    const support::token_batch b{0, 3, 2};
    std::vector<float> rows(16 * width), expected(rows.size());
    support::detail::check(base.rows(pool, b.view(), rows));
    model->initialize(0);
    kernels::embedding_forward(pool, b.inputs.data(), model->parameters().value(0), model->parameters().value(1),
                               expected.data(), 2, 8, width);
    support::detail::check(codec.leave_outside(pool, width, expected));
    double most = 0;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      most = std::max(most, static_cast<double>(std::abs(rows[i] - expected[i])));
    }
    if (most > 1e-6) throw std::runtime_error{"base " + std::to_string(most)};
    auto wrong = b;
    wrong.inputs[5] = 29;
    if (base.rows(pool, wrong.view(), rows)) throw std::runtime_error{"a token that is none"};
  });
}

TEST_CASE("embedding_base: a peer that asks nobody makes the same, whatever part it holds", "[parallel][fast]") {
  thread_pool pool{1};
  stage::subspace<> codec{{.rank = 4, .seed = 7}};
  const auto made = [&](nn::model_part part, std::uint64_t seed) {
    auto model = valued(nn::gpt::create(support::small_gpt(), kernels::cpu_backend{1}, std::move(part)));
    model->initialize(seed);
    embedding_base base;
    support::detail::check(base.make(pool, *model, codec));
    return base;
  };
  const embedding_base first = made(nn::model_part{{0, 1}}, 3), last = made(nn::model_part{{1, 2}}, 3);
  const support::token_batch b{0, 3, 2};
  std::vector<float> of_first(16 * width), of_last(of_first.size()), shared(of_first.size());
  support::detail::check(first.rows(pool, b.view(), of_first));
  support::detail::check(last.rows(pool, b.view(), of_last));
  CHECK(of_first == of_last);
  CHECK(first.agreement() == last.agreement());
  CHECK(first.agreement() != made(nn::model_part{{1, 2}}, 4).agreement());
  support::run_cluster(1, [&](std::uint32_t, environment env) {
    auto model = valued(nn::gpt::create(support::small_gpt()));
    model->initialize(3);
    collective::group_view view{env.transport, {0}};
    embedding_base base;
    support::detail::check(base.share(view, pool, *model, codec, {{.channel = collective::channels::activations}, {}}));
    support::detail::check(base.rows(pool, b.view(), shared));
  });
  CHECK(shared == of_first);
  embedding_base none;
  auto model = valued(nn::gpt::create(support::small_gpt()));
  stage::plain plain;
  support::detail::check(none.make(pool, *model, plain));
  CHECK(none.empty());
  CHECK(none.agreement() == 0);
}

TEST_CASE("embedding_base: tables that were trained in the subspace are known, those from elsewhere are refused",
          "[parallel][fast]") {
  thread_pool pool{1};
  stage::subspace<> codec{{.rank = 4, .seed = 7}};
  const auto basis = valued(stage::subspace_basis::random(7, width, 4));
  auto model = valued(nn::gpt::create(support::small_gpt()));
  embedding_base base;
  support::detail::check(base.make(pool, *model, codec));
  auto& store = model->parameters();
  std::vector<float> moves(static_cast<std::size_t>(store.segments()[0].size()), 0.5F);
  basis->project_rows(pool, moves);
  kernels::axpy(pool, store.value(0), 1.0F, moves.data(), store.segments()[0].size());
  embedding_base trained;
  support::detail::check(trained.make(pool, *model, codec));
  CHECK(trained.agreement() == base.agreement());
  stage::subspace<> all{{.rank = width, .seed = 7}};  // nothing lies outside
  support::detail::check(embedding_base{}.make(pool, *model, all));
  model->initialize(9);
  const std::vector<float> elsewhere{store.value(0), store.value(0) + store.segments()[0].size()};
  model->initialize(0);
  std::copy(elsewhere.begin(), elsewhere.end(), store.value(0));
  const auto refused = embedding_base{}.make(pool, *model, codec);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == errc::invalid_argument);
  CHECK(refused.error().text().find("initialize") != std::string::npos);
}

TEST_CASE("embedding_base: a model with dropout is refused, with the reason", "[parallel][fast]") {
  auto o = support::small_gpt();
  o.dropout = 0.1F;
  outcome out;
  train<nn::gpt>(o, {}, out);
  CHECK(out.error.find("dropout") != std::string::npos);
}

}  // namespace causeway::parallel
