// SPDX-License-Identifier: Apache-2.0
#include <causeway/parallel/swarm/swarm_shares.hpp>

#include <initializer_list>
#include <vector>

#include "support/catch.hpp"

namespace causeway::parallel {
namespace {

swarm_wire::batch_set set_of(std::initializer_list<std::uint32_t> members, std::uint32_t size = 4) {
  swarm_wire::batch_set s{size};
  for (const auto m : members) s.add(m);
  return s;
}

using part = swarm_part;

}  // namespace

TEST_CASE("swarm shares: sets that make the whole are added up as they are", "[parallel][fast]") {
  const std::vector<swarm_holding> all{{7, false, set_of({0, 3})}, {7, false, set_of({})}, {7, false, set_of({1, 2})}};
  const auto plan = plan_shares(all, 7, set_of({0, 1, 2, 3}));
  CHECK(plan.complete);
  CHECK(plan.parts == std::vector{part::own, part::nothing, part::own});
}

TEST_CASE("swarm shares: nothing is exchanged while a micro-batch is missing", "[parallel][fast]") {
  const std::vector<swarm_holding> all{{7, false, set_of({0, 3})}, {7, false, set_of({1})}};
  CHECK_FALSE(plan_shares(all, 7, set_of({0, 1, 2, 3})).complete);
  CHECK(plan_shares(all, 7, set_of({0, 1, 3})).complete);  // where the stage is left out by micro-batch 2
}

TEST_CASE("swarm shares: what one of them has heard is left out may be missing", "[parallel][fast]") {
  std::vector<swarm_holding> all{{7, false, set_of({0, 3})}, {7, false, set_of({})}};
  const auto whole = set_of({0, 1, 2, 3});
  all[1].left_out = set_of({1, 3});
  CHECK_FALSE(plan_shares(all, 7, whole).complete);
  all[0].left_out = set_of({2});
  CHECK(plan_shares(all, 7, whole).complete);
  CHECK(plan_shares(all, 7, whole).parts[0] == part::own);  // what is there of it counts
  all[0].step = 6;
  CHECK_FALSE(plan_shares(all, 7, whole).complete);
}

TEST_CASE("swarm shares: a mean is of the paths of its rows, also where those who made it are gone", "[parallel][fast]") {
  std::vector<swarm_holding> all{{7, false, set_of({0, 1})}, {7, false, set_of({})}, {7, false, set_of({2, 3})}};
  all[0].samples = 2, all[2].samples = 2;
  all[0].module_path = 1, all[1].module_path = 4, all[2].module_path = 0;
  const auto plan = plan_shares(all, 7, set_of({0, 1, 2, 3}));
  CHECK(paths_of(all, plan, weights_of(all, plan)) == std::vector<std::uint32_t>{1, swarm_wire::no_module_path, 0});
  all[1].sum = true;
  all[1].sum_paths = {0, 3};
  const auto known = plan_shares(all, 7, set_of({0, 1, 2, 3}));
  CHECK(paths_of(all, known, weights_of(all, known)) == std::vector<std::uint32_t>{0, 3});
}

TEST_CASE("swarm shares: who has what another has too is left out whole", "[parallel][fast]") {
  const std::vector<swarm_holding> all{{7, false, set_of({0, 1})}, {7, false, set_of({1, 2})}, {7, false, set_of({2, 3})}};
  const auto plan = plan_shares(all, 7, set_of({0, 1, 2, 3}));
  CHECK(plan.complete);
  CHECK(plan.parts == std::vector{part::own, part::dropped, part::own});
}

TEST_CASE("swarm shares: one sum is taken alone, and what belongs to another step counts for nothing", "[parallel][fast]") {
  const std::vector<swarm_holding> all{
      {6, true, set_of({})}, {7, false, set_of({0})}, {7, true, set_of({1})}, {7, true, set_of({2})}};
  const auto plan = plan_shares(all, 7, set_of({0, 1, 2, 3}));
  CHECK(plan.complete);
  CHECK(plan.parts == std::vector{part::nothing, part::nothing, part::sum, part::nothing});
  const std::vector<swarm_holding> old{{6, false, set_of({0, 1})}, {7, false, set_of({2, 3})}};
  CHECK_FALSE(plan_shares(old, 7, set_of({0, 1, 2, 3})).complete);
}

TEST_CASE("swarm shares: rows that are a step late are of disjoint sets, whatever sum is there already",
          "[parallel][fast]") {
  const auto whole = set_of({0, 1, 2, 3});
  std::vector<swarm_holding> all{{7, false, set_of({0, 1})}, {7, true, set_of({1, 2})}, {7, false, set_of({3})}};
  const auto plan = plan_shares(all, 7, whole, false, true);
  CHECK(plan.complete);  // micro-batch 0 stays lacking
  CHECK(plan.parts == std::vector{part::dropped, part::sum, part::own});
  CHECK(is_superfluous(all, plan, 0));
  CHECK_FALSE(is_superfluous(all, plan, 2));  // what it has is for the next mean, not for that one
  all[1].sum = false;
  const auto without = plan_shares(all, 7, whole, false, true);
  CHECK_FALSE(without.complete);
  CHECK(without.parts == std::vector{part::own, part::dropped, part::own});
  CHECK(weights_of(all, without) == std::vector<double>{0, 0, 0});  // nobody has a row of the step before
}

TEST_CASE("swarm shares: in a mean a peer weighs what it has, a mean that is there all, and who was left out nothing",
          "[parallel][fast]") {
  std::vector<swarm_holding> all{
      {7, false, set_of({0})}, {7, false, set_of({})}, {7, false, set_of({0, 1})}, {7, false, set_of({1, 2, 3})}};
  all[0].samples = 2, all[2].samples = 5, all[3].samples = 6;
  auto plan = plan_shares(all, 7, set_of({0, 1, 2, 3}));
  CHECK(weights_of(all, plan) == std::vector<double>{0.25, 0, 0, 0.75});
  all[1].samples = 8;  // of a row that was made a round ago
  CHECK(weights_of(all, plan) == std::vector<double>{0.125, 0.5, 0, 0.375});
  all[1].sum = true, all[1].sum_of = 4;
  all[0].row_of = all[3].row_of = 4, all[2].row_of = 3;
  plan = plan_shares(all, 7, set_of({0, 1, 2, 3}));
  CHECK(weights_of(all, plan) == std::vector<double>{0.5, 0, 0, 0.5});
}

TEST_CASE("swarm shares: what others have left behind is exchanged as it is", "[parallel][fast]") {
  std::vector<swarm_holding> all{{7, false, set_of({0, 3})}, {7, false, set_of({1}), true}};
  CHECK(plan_shares(all, 7, set_of({0, 1, 2, 3})).complete);
  CHECK_FALSE(plan_shares(all, 8, set_of({0, 1, 2, 3})).complete);
  const auto back = decode_holding(encode(all[1]));
  REQUIRE(back);
  CHECK(back->released);
  CHECK_FALSE(back->sum);
  all = {{7, false, set_of({}), true}};
  CHECK(weights_of(all, plan_shares(all, 7, set_of({0, 1})))[0] == 1);  // nothing, which somebody must say
}

TEST_CASE("swarm shares: who has no values weighs nothing where nobody has anything new to say", "[parallel][fast]") {
  std::vector<swarm_holding> all(3, {7, false, set_of({})});
  all[1].lacks_values = true;
  const auto plan = plan_shares(all, 7, set_of({}));
  CHECK(weights_of(all, plan) == std::vector<double>{0.5, 0, 0.5});
  const auto back = decode_holding(encode(all[1]));
  REQUIRE(back);
  CHECK(back->lacks_values);
  CHECK_FALSE(back->part);
  CHECK_FALSE(decode_holding(encode(all[0]))->lacks_values);
  for (auto& h : all) h.lacks_values = true;
  CHECK(weights_of(all, plan) == std::vector<double>(3, 1.0 / 3));
}

TEST_CASE("swarm shares: the other end's part of a tied table is added by one peer, and nothing is summed without it",
          "[parallel][fast]") {
  std::vector<swarm_holding> all{{7, false, set_of({0, 3})}, {7, false, set_of({1, 2})}, {7, false, set_of({})}};
  const auto wanted = set_of({0, 1, 2, 3});
  CHECK_FALSE(plan_shares(all, 7, wanted, true).complete);
  CHECK(plan_shares(all, 7, wanted).complete);
  CHECK(plan_shares(all, 7, wanted).adds_part == swarm_plan::none);
  all[1].part = all[2].part = true;
  auto plan = plan_shares(all, 7, wanted, true);
  CHECK(plan.complete);
  CHECK(plan.adds_part == 1);
  CHECK(plan.parts == std::vector{part::own, part::own, part::nothing});
  all[1].part = false;
  plan = plan_shares(all, 7, wanted, true);
  CHECK(plan.adds_part == 2);  // also a peer without micro-batches
  all[2].step = 6;
  CHECK_FALSE(plan_shares(all, 7, wanted, true).complete);  // of another step
  all[2].step = 7;
  all[0].sum = true;
  plan = plan_shares(all, 7, wanted, true);
  CHECK(plan.complete);
  CHECK(plan.adds_part == swarm_plan::none);  // it is in the sum
  all[0] = {7, false, set_of({0})};
  CHECK_FALSE(plan_shares(all, 7, wanted, true).complete);
  const auto back = decode_holding(encode(all[2]));
  REQUIRE(back);
  CHECK(back->part);
  CHECK_FALSE(back->sum);
}

TEST_CASE("swarm shares: the other end's part goes in and out without a trace", "[parallel][fast]") {
  swarm_gradients kept;
  kept.begin(7);
  std::vector<float> g{1, 2, 3};
  const std::span<float> table = std::span{g}.subspan(1);
  const std::vector<float> other{1e9F, -0.1F};
  kept.put_in(part::own, g);
  kept.add_part(other, table);
  CHECK(g == std::vector<float>{1, 1e9F, 2.9F});
  kept.restore(g, table);
  CHECK(g == std::vector<float>{1, 2, 3});
  kept.put_in(part::nothing, g);
  kept.add_part(other, table);
  CHECK(g == std::vector<float>{0, 1e9F, -0.1F});
  kept.restore(g, table);
  CHECK(g == std::vector<float>{1, 2, 3});
}

TEST_CASE("swarm shares: what a peer puts in leaves what it has as it was", "[parallel][fast]") {
  swarm_gradients kept;
  kept.begin(7);
  kept.keep_sum(7, {10, 20});
  CHECK(kept.has_sum(7));
  CHECK_FALSE(kept.has_sum(8));
  std::vector<float> g{1, 2};
  kept.put_in(part::sum, g);
  CHECK(g == std::vector<float>{10, 20});
  kept.restore(g);
  CHECK(g == std::vector<float>{1, 2});
  kept.put_in(part::nothing, g);
  CHECK(g == std::vector<float>{0, 0});
  kept.restore(g);
  CHECK(g == std::vector<float>{1, 2});
  kept.begin(7);  // another attempt at the step
  CHECK(kept.has_sum(7));
  kept.begin(8);
  CHECK_FALSE(kept.has_sum(7));
}

TEST_CASE("swarm shares: a mean of a peer's own is put in, and its sum stays", "[parallel][fast]") {
  swarm_gradients kept;
  kept.begin(7);
  std::vector<float> g{1, 2};
  kept.put_in_mean(4, g);
  CHECK(g == std::vector<float>{4, 8});
  kept.restore(g);
  CHECK(g == std::vector<float>{1, 2});
  kept.put_in_mean(4, g);
  kept.begin(7);  // the gradient was dropped
  kept.restore(g);
  CHECK(g == std::vector<float>{4, 8});
}

TEST_CASE("swarm shares: who is not in a mean of the step gives its gradient up, if it has one", "[parallel][fast]") {
  std::vector<swarm_holding> all{{7, false, set_of({0, 1})}, {7, false, set_of({2})}, {7, false, set_of({})}};
  auto plan = plan_shares(all, 7, set_of({0, 1, 2}));
  for (std::size_t p = 0; p < 3; ++p) CHECK_FALSE(is_superfluous(all, plan, p));
  all[0].sum = true, all[0].sum_of = 4, all[1].row_of = 4, all[2].row_of = 3;
  plan = plan_shares(all, 7, set_of({0, 1, 2}));
  for (std::size_t p = 0; p < 3; ++p) CHECK_FALSE(is_superfluous(all, plan, p));
  all[1].row_of = 3;
  CHECK(is_superfluous(all, plan, 1));
  all = {{7, false, set_of({0, 1})}, {7, false, set_of({1, 2})}};
  CHECK(is_superfluous(all, plan_shares(all, 7, set_of({0, 1, 2})), 1));  // others have a part of it
}

TEST_CASE("swarm shares: the sum of a stage that has nothing in an exchange is empty, and it has it", "[parallel][fast]") {
  swarm_gradients kept;
  kept.begin(7);
  CHECK_FALSE(kept.has_sum(7));
  kept.keep_sum(7, {});
  CHECK(kept.has_sum(7));
  CHECK(kept.sum().empty());
  kept.begin(8);
  CHECK_FALSE(kept.has_sum(8));
}

TEST_CASE("swarm shares: who has what the holder of a result has, or a peer before it, has it twice", "[parallel][fast]") {
  const auto of = [](std::initializer_list<std::uint32_t> members) { return set_of(members, 8); };
  std::vector<swarm_holding> all{{7, false, of({0, 1})}, {7, true, of({1, 2})}, {7, false, of({3})},
                                 {7, false, of({3, 4})}, {7, false, of({5})},   {6, false, of({5})}};
  const auto doubled = [&] {
    const swarm_plan plan = plan_shares(all, 7, of({0, 1, 2, 3, 4, 5, 6, 7}));
    std::vector<std::size_t> found;
    for (std::size_t p = 0; p < all.size(); ++p) {
      if (has_doubles(all, plan, p)) found.push_back(p);
    }
    return found;
  };
  CHECK(doubled() == std::vector<std::size_t>{0, 3});
  all[1].sum_of = all[3].row_of = 4;
  CHECK(doubled() == std::vector<std::size_t>{0, 2});  // the other one is in the result
  all[1].sum = false;                                  // then what the plan drops
  CHECK(doubled() == std::vector<std::size_t>{1, 3});
}

TEST_CASE("swarm shares: a holding comes back from its bytes, and no other bytes do", "[parallel][fast]") {
  swarm_holding h{9, true, set_of({0, 64, 99}, 100)};
  h.samples = 12, h.row_of = 3, h.sum_of = 2;
  h.module_path = 5, h.sum_paths = {7, 8}, h.left_out = set_of({1, 98}, 100);
  const auto bytes = encode(h);
  const auto back = decode_holding(bytes);
  REQUIRE(back);
  CHECK(back->step == 9);
  CHECK(back->sum);
  CHECK(back->done == h.done);
  CHECK(back->samples == 12);
  CHECK(back->row_of == 3);
  CHECK(back->sum_of == 2);
  CHECK(back->module_path == 5);
  CHECK(back->sum_paths == h.sum_paths);
  CHECK(back->left_out == h.left_out);
  for (std::size_t n = 0; n < bytes.size(); ++n) CHECK_FALSE(decode_holding(std::span{bytes}.first(n)));
  auto beyond = bytes;
  beyond.back() = std::byte{0xFF};  // micro-batches 120 to 127 of 100
  CHECK_FALSE(decode_holding(beyond));
  auto huge = bytes;
  huge[28] = std::byte{0xFF};  // a size that nothing backs
  CHECK_FALSE(decode_holding(huge));
}

}  // namespace causeway::parallel
