// SPDX-License-Identifier: Apache-2.0
#include <causeway/parallel/elastic/block_sums.hpp>

#include <causeway/core/thread_pool.hpp>
#include <causeway/optim/clip.hpp>

#include <cmath>
#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "support/cluster.hpp"
#include "support/timed_stages.hpp"

namespace causeway {
namespace {

// Six blocks of one parameter: peer 10 has all of them, 20 and 30 a half each, and 40 the last two beside them.
const stage::layout uneven{{{{{10, {0, 6}}}, 1}, {{{20, {0, 3}}, {30, {3, 6}}}, 1}, {{{40, {0, 2}}}, 1}}};

struct context {
  support::timed_stages& stages;
  thread_pool pool{1};
  support::timed_stages& model() { return stages; }
  std::span<float> gradients() { return stages.parameters().gradients(); }
  double norm_of(std::span<const float> values) { return optim::global_norm(pool, values); }
};

}  // namespace

TEST_CASE("block sums: blocks with the same holders are summed together", "[parallel][fast]") {
  const auto runs = parallel::shared_runs(uneven, 6);
  REQUIRE(runs.size() == 3);
  CHECK(runs[0].blocks == nn::block_range{0, 2});
  CHECK((runs[0].holders == std::vector<std::uint64_t>{10, 20, 40}));
  CHECK(runs[1].blocks == nn::block_range{2, 3});
  CHECK((runs[1].holders == std::vector<std::uint64_t>{10, 20}));
  CHECK((runs[2].holders == std::vector<std::uint64_t>{10, 30}));
}

TEST_CASE("block sums: everybody has the sum of what it holds, and each block's norm counts once", "[parallel][fast]") {
  const std::vector<nn::block_range> parts{{0, 6}, {0, 3}, {3, 6}, {0, 2}};
  const std::map<std::uint64_t, net::peer_index> index_of{{10, 0}, {20, 1}, {30, 2}, {40, 3}};
  std::vector<parallel::block_squares> squares(4);
  std::vector<std::map<std::int64_t, float>> sums(4);
  support::run_cluster(4, [&](std::uint32_t p, environment env) {
    support::timed_stages model{6, 4, nn::model_part{parts[p]}};
    context ctx{model};
    std::size_t segment = 0;  // of block b: 10 b + 1 from each peer
    for (std::int64_t b = parts[p].first; b < parts[p].last; ++b)
      *model.parameters().gradient(segment++) = static_cast<float>(10 * b + 1);
    squares[p] =
        parallel::sum_blocks(ctx, env.transport, {.channel = 9}, uneven, 10 * (std::uint64_t{p} + 1), index_of, {}).value();
    segment = 0;
    for (std::int64_t b = parts[p].first; b < parts[p].last; ++b) sums[p][b] = *model.parameters().gradient(segment++);
  });
  double of_the_whole = 0;
  for (std::uint32_t p = 0; p < 4; ++p) {
    CHECK(squares[p].of.size() == static_cast<std::size_t>(parts[p].size()));
    of_the_whole += squares[p].first;
    for (const auto& [b, sum] : sums[p]) {
      const double want = (b < 2 ? 3 : 2) * static_cast<double>(10 * b + 1);
      CHECK(sum == Approx(want));
      CHECK(squares[p].of.at(b) == Approx(want * want));
    }
  }
  double want = 0;
  for (std::int64_t b = 0; b < 6; ++b) want += std::pow((b < 2 ? 3 : 2) * static_cast<double>(10 * b + 1), 2);
  CHECK(of_the_whole == Approx(want));
}

}  // namespace causeway
