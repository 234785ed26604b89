// SPDX-License-Identifier: Apache-2.0
#include <causeway/parallel/pipeline/pipeline_exchange.hpp>

#include <causeway/net/memory_transport.hpp>

#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "support/catch.hpp"

namespace causeway::parallel {
namespace {

using Catch::Matchers::Contains;

// Runs `body(view, exchange)` on every rank of a pipeline of `ranks`.
void on_ranks(std::uint32_t ranks, const std::function<void(collective::group_view&, const pipeline_exchange&)>& body) {
  net::memory_network network{ranks};
  std::vector<std::thread> threads;
  for (std::uint32_t r = 0; r < ranks; ++r) {
    threads.emplace_back([&, r] {
      net::any_transport transport{network.transport(r)};
      std::vector<net::peer_index> members(ranks);
      for (std::uint32_t m = 0; m < ranks; ++m) members[m] = m;
      collective::group_view view{transport, members};
      body(view, {{.channel = 64, .step = 3}, {}});
    });
  }
  for (auto& t : threads) t.join();
}

std::vector<std::string> agreed(const std::vector<std::vector<nn::block_range>>& parts, std::int64_t layers,
                                std::uint32_t chunks = 1) {
  std::vector<std::string> errors(parts.size());
  on_ranks(static_cast<std::uint32_t>(parts.size()), [&](collective::group_view& view, const pipeline_exchange& exchange) {
    const auto outcome = agree_on_parts(view, {7, layers, chunks}, parts[view.self()], exchange);
    if (!outcome) errors[view.self()] = outcome.error().text();
  });
  return errors;
}

}  // namespace

TEST_CASE("pipeline exchange: parts that make the model one after another are agreed on", "[parallel][fast]") {
  for (const auto& e : agreed({{{0, 2}}, {{2, 5}}, {{5, 6}}}, 6)) CHECK(e.empty());
  for (const auto& e : agreed({{{0, 1}, {2, 3}}, {{1, 2}, {3, 4}}}, 4, 2)) CHECK(e.empty());
}

TEST_CASE("pipeline exchange: stages that go on from different steps are told so", "[parallel][fast]") {
  std::vector<std::string> errors(2);
  on_ranks(2, [&](collective::group_view& view, const pipeline_exchange& exchange) {
    const std::vector<nn::block_range> part{{view.self(), view.self() + 1}};
    const auto outcome = agree_on_parts(view, {7, 2, 1, 4 + view.self()}, part, exchange);
    if (!outcome) errors[view.self()] = outcome.error().text();
  });
  CHECK_THAT(errors[0], Contains("rank 1") && Contains("it is at step 5, this peer at step 4") && Contains("diverged"));
  CHECK_THAT(errors[1], Contains("rank 0") && Contains("it is at step 4, this peer at step 5"));
}

TEST_CASE("pipeline exchange: a gap, an overlap and an end too soon are found by all ranks", "[parallel][fast]") {
  for (const auto& e : agreed({{{0, 2}}, {{3, 6}}}, 6)) CHECK_THAT(e, Contains("rank 1") && Contains("block 2"));
  for (const auto& e : agreed({{{0, 3}}, {{2, 6}}}, 6)) CHECK_THAT(e, Contains("rank 1") && Contains("block 3"));
  for (const auto& e : agreed({{{0, 2}}, {{2, 5}}}, 6)) CHECK_THAT(e, Contains("ends at block 5 of 6"));
}

TEST_CASE("pipeline exchange: ranks that were built for another schedule or model are named", "[parallel][fast]") {
  std::vector<std::string> errors(2);
  on_ranks(2, [&](collective::group_view& view, const pipeline_exchange& exchange) {
    const std::uint64_t hash = view.self();
    const std::vector<nn::block_range> part{{view.self(), view.self() + 1}};
    const auto outcome = agree_on_parts(view, {hash, 2, 1}, part, exchange);
    if (!outcome) errors[view.self()] = outcome.error().text();
  });
  CHECK_THAT(errors[0], Contains("rank 1") && Contains("another model"));
  CHECK_THAT(errors[1], Contains("rank 0") && Contains("another model"));
}

TEST_CASE("pipeline exchange: the last rank's loss and the norm of all are known to all, with the same bits",
          "[parallel][fast]") {
  std::vector<double> losses(3);
  std::vector<float> norms(3);
  on_ranks(3, [&](collective::group_view& view, const pipeline_exchange& exchange) {
    losses[view.self()] = loss_of_pipeline(view, view.self() == 2 ? 4.25 : 0, 2, exchange).value();
    norms[view.self()] = norm_of_pipeline(view, 1.0 + 3.0 * view.self(), exchange).value();
  });
  CHECK(losses == std::vector<double>(3, 4.25));
  CHECK(norms == std::vector<float>(3, std::sqrt(12.0F)));
}

TEST_CASE("pipeline exchange: a loss that two ranks know half of each is summed on all", "[parallel][fast]") {
  std::vector<double> losses(4);
  on_ranks(4, [&](collective::group_view& view, const pipeline_exchange& exchange) {
    const double own = view.self() == 0 ? 1.5 : view.self() == 3 ? 2.75 : 0;
    losses[view.self()] = loss_of_pipeline(view, own, std::nullopt, exchange).value();
  });
  CHECK(losses == std::vector<double>(4, 4.25));
}

TEST_CASE("pipeline exchange: parts of folded pipelines and of two ways are checked along their paths",
          "[parallel][fast]") {
  const auto complaints = [](std::vector<std::vector<nn::block_range>> parts, std::int64_t layers, plan::stage_path path) {
    std::vector<std::string> errors(parts.size());
    on_ranks(static_cast<std::uint32_t>(parts.size()),
             [&](collective::group_view& view, const pipeline_exchange& exchange) {
               const auto outcome = agree_on_parts(view, {7, layers, 2, 0, path}, parts[view.self()], exchange);
               if (!outcome) errors[view.self()] = outcome.error().text();
             });
    return errors;
  };
  const auto folded = plan::stage_path::folded, two_ways = plan::stage_path::two_ways;
  for (const auto& e : complaints({{{0, 1}, {3, 4}}, {{1, 2}, {2, 3}}}, 4, folded)) CHECK(e.empty());
  for (const auto& e : complaints({{{0, 1}, {2, 3}}, {{1, 2}, {3, 4}}}, 4, folded)) CHECK_THAT(e, Contains("as stage 2"));
  for (const auto& e : complaints({{{0, 1}, {1, 4}}, {{1, 4}, {0, 1}}}, 4, two_ways)) CHECK(e.empty());
  for (const auto& e : complaints({{{0, 1}, {2, 4}}, {{1, 4}, {0, 1}}}, 4, two_ways)) CHECK_THAT(e, Contains("rank 0"));
}

TEST_CASE(
    "pipeline exchange: gradients of both copies are added up, and parameters that differ become those of the first half",
    "[parallel][fast]") {
  std::vector<std::vector<float>> gradients(4), parameters(4);
  std::vector<char> changed(4);
  on_ranks(4, [&](collective::group_view& view, const pipeline_exchange& exchange) {
    const auto self = static_cast<float>(view.self());
    std::vector<float> g{1 + self, 10}, p{self == 3 ? 5.0F : self}, other;
    if (self == 1 || self == 2) p[0] = 8;
    thread_pool pool{1};
    if (!add_copies(view, pool, g, other, exchange)) return;
    const auto moved = align_copies(view, p, exchange);
    if (!moved) return;
    gradients[view.self()] = g, parameters[view.self()] = p, changed[view.self()] = *moved ? 1 : 0;
  });
  CHECK(gradients == std::vector<std::vector<float>>(4, {5, 20}));
  CHECK(parameters == std::vector<std::vector<float>>{{0}, {8}, {8}, {0}});
  CHECK(changed == std::vector<char>{0, 0, 0, 1});
}

TEST_CASE("pipeline exchange: NaN in one stage is NaN everywhere, so that no stage steps", "[parallel][fast]") {
  std::vector<float> norms(2);
  on_ranks(2, [&](collective::group_view& view, const pipeline_exchange& exchange) {
    const double own = view.self() == 0 ? std::numeric_limits<double>::quiet_NaN() : 1.0;
    norms[view.self()] = norm_of_pipeline(view, own, exchange).value();
  });
  for (const float n : norms) CHECK(std::isnan(n));
}

TEST_CASE("pipeline exchange: both ends add up a tied table to the same bits; copies go from first to last",
          "[parallel][fast]") {
  std::vector<std::vector<float>> sums(3), copies(3);
  on_ranks(3, [&](collective::group_view& view, const pipeline_exchange& exchange) {
    const auto rank = view.self();
    thread_pool pool{1};
    std::vector<float> table(100, 0.1F + static_cast<float>(rank)), other;
    CHECK(add_ends(view, pool, table, other, exchange));
    sums[rank] = table;
    for (float& v : table) v += static_cast<float>(rank);
    CHECK(copy_to_last(view, table, exchange));
    copies[rank] = table;
  });
  CHECK(sums[0] == std::vector<float>(100, 0.1F + 2.1F));
  CHECK(sums[2] == sums[0]);
  CHECK(sums[1] == std::vector<float>(100, 1.1F));  // in the middle there is no such table
  CHECK(copies[2] == copies[0]);
}

TEST_CASE("pipeline exchange: both ends know what is true at either", "[parallel][fast]") {
  for (const std::uint32_t moved : {0U, 1U, 2U, 9U}) {
    std::vector<int> known(3);
    on_ranks(3, [&](collective::group_view& view, const pipeline_exchange& exchange) {
      known[view.self()] = at_either_end(view, view.self() == moved, exchange).value() ? 1 : 0;
    });
    const int at_an_end = moved == 0 || moved == 2 ? 1 : 0;
    CHECK(known == std::vector<int>{at_an_end, 0, at_an_end});
  }
}

}  // namespace causeway::parallel
