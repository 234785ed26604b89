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

TEST_CASE("embedding_base: a model with dropout is refused, with the reason", "[parallel][fast]") {
  auto o = support::small_gpt();
  o.dropout = 0.1F;
  outcome out;
  train<nn::gpt>(o, {}, out);
  CHECK(out.error.find("dropout") != std::string::npos);
}

}  // namespace causeway::parallel
