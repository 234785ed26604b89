// SPDX-License-Identifier: Apache-2.0
#include <causeway/parallel/tied_table.hpp>

#include <causeway/core/thread_pool.hpp>
#include <causeway/optim/clip.hpp>
#include <causeway/parallel/elastic/block_sums.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "support/catch.hpp"
#include "support/cluster.hpp"
#include "support/models.hpp"
#include "support/pipelines.hpp"

namespace causeway {
namespace {

constexpr std::int64_t layers = 3;

nn::gpt tied_gpt(nn::model_part part) {
  auto o = support::small_gpt(layers);
  o.tie = true;
  return nn::gpt::create(o, kernels::cpu_backend{1}, std::move(part)).value();
}

std::size_t length_of_pieces(nn::gpt& model, std::int64_t block) {
  std::size_t length = 0;
  parallel::for_pieces_of(model, model.parameters().values(), block, [&](std::span<float> p) { length += p.size(); });
  return length;
}

struct context {
  nn::gpt& model_;
  nn::gpt& model() { return model_; }
  std::span<float> gradients() { return model_.parameters().gradients(); }
  double norm_of(std::span<const float> values) { return optim::global_norm(model_.backend().pool(), values); }
};

// One peer has all, two a pipeline of two stages, the fourth is in the middle only, the fifth has both ends; 60 is spare.
const stage::layout uneven{
    {{{{10, {0, 3}}}, 1}, {{{20, {0, 1}}, {40, {1, 2}}, {30, {2, 3}}}, 1}, {{{50, {0, 1}, {{0, 1}, {2, 3}}}}, 1}}};

}  // namespace

TEST_CASE("tied table: it is part of both end blocks' contents, and of no other's", "[parallel][fast]") {
  nn::gpt first = tied_gpt(nn::model_part{{0, 1}}), middle = tied_gpt(nn::model_part{{1, 2}}),
          last = tied_gpt(nn::model_part{{2, 3}}), whole = tied_gpt({});
  CHECK(parallel::table_in(middle, middle.parameters().values()).empty());
  const auto table = parallel::table_in(first, first.parameters().values());
  CHECK(table.size() >= 29 * 16);
  const auto at_the_end = parallel::table_in(last, last.parameters().values());
  CHECK(std::equal(table.begin(), table.end(), at_the_end.begin(), at_the_end.end()));
  for (std::int64_t b = 0; b < layers; ++b) {
    nn::gpt& alone = b == 0 ? first : b == 1 ? middle : last;
    CHECK(length_of_pieces(whole, b) == static_cast<std::size_t>(whole.block_length(b)));
    CHECK(length_of_pieces(alone, b) == static_cast<std::size_t>(whole.block_length(b)));
    const auto untied = parallel::untied_blocks_in(alone, alone.parameters().values(), {b, b + 1});
    CHECK(untied.size() == length_of_pieces(alone, b) - (b == 1 ? 0 : table.size()));
  }
  nn::gpt small = nn::gpt::create([] {
                    auto o = support::small_gpt(1);
                    o.tie = true;
                    return o;
                  }())
                      .value();
  CHECK(length_of_pieces(small, 0) == static_cast<std::size_t>(small.parameters().length()));  // once
}

TEST_CASE("tied table: it is summed over who holds either end, to the same bits, and counts once", "[parallel][fast]") {
  CHECK((parallel::holders_of_table(uneven, layers) == std::vector<std::uint64_t>{10, 20, 50, 30}));
  const std::vector<std::vector<nn::block_range>> parts{{{0, 3}}, {{0, 1}}, {{2, 3}}, {{1, 2}}, {{0, 1}, {2, 3}}, {{0, 1}}};
  std::map<std::uint64_t, net::peer_index> index_of;
  for (std::uint32_t p = 0; p < parts.size(); ++p) index_of[10 * (std::uint64_t{p} + 1)] = p;
  std::vector<std::vector<float>> tables(parts.size()), rest(parts.size());
  std::vector<double> squares(parts.size());
  support::run_cluster(static_cast<std::uint32_t>(parts.size()), [&](std::uint32_t p, environment env) {
    nn::gpt model = tied_gpt(nn::model_part{parts[p]});
    context ctx{model};
    auto& store = model.parameters();
    for (std::size_t i = 0; i < store.segments().size(); ++i)  // padding stays zero
      for (std::int64_t k = 0; k < store.segments()[i].size(); ++k) store.gradient(i)[k] = 0.1F * static_cast<float>(p + 1);
    squares[p] = parallel::sum_blocks(ctx, env.transport, {.channel = 9}, uneven, 10 * (std::uint64_t{p} + 1), index_of, {})
                     .value()
                     .first;
    const auto table = parallel::table_in(model, ctx.gradients());
    tables[p].assign(table.begin(), table.end());
    const auto last = parallel::untied_blocks_in(model, ctx.gradients(), {parts[p].back().last - 1, parts[p].back().last});
    rest[p].assign(last.begin(), last.end());
  });
  const double in_table = 0.1 * (1 + 2 + 3 + 5), ends[] = {0.1 * (1 + 2 + 5), 0.1 * (1 + 4), 0.1 * (1 + 3 + 5)};
  CHECK(tables[0][0] == Approx(in_table));
  for (const std::size_t p : {1U, 2U, 4U}) CHECK(tables[p] == tables[0]);
  CHECK(tables[3].empty());
  CHECK(tables[5][0] == Approx(0.6));  // a spare peer takes no part
  CHECK(rest[0][0] == Approx(ends[2]));
  CHECK(rest[2][0] == Approx(ends[2]));
  CHECK(rest[1][0] == Approx(ends[0]));
  nn::gpt whole = tied_gpt({});
  double want = 0;
  for (const auto& s : whole.parameters().segments()) {
    const double each = s.name == "wte.weight" ? in_table : ends[std::clamp(s.block, 0, 2)];
    want += each * each * static_cast<double>(s.size());
  }
  double sum = 0;
  for (const double s : squares) sum += s;
  CHECK(sum == Approx(want));
}

}  // namespace causeway
