// SPDX-License-Identifier: Apache-2.0
#include <causeway/parallel/elastic/block_ownership.hpp>

#include <causeway/comm/every_step.hpp>
#include <causeway/io/memory_storage.hpp>
#include <causeway/optim/adamw.hpp>
#include <causeway/parallel/elastic/shared_blocks.hpp>
#include <causeway/train/trainer.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "support/pipelines.hpp"

using namespace causeway;

namespace {

auto trainer_of(nn::model_part part) {
  auto model = nn::gpt::create(support::small_gpt(4), kernels::cpu_backend{1}, std::move(part));
  return make_trainer(std::move(*model), environment{}, trainer_options{}, comm::every_step<>{}, optim::adamw{});
}

bool all_are(std::span<const float> values, float what) {
  return std::all_of(values.begin(), values.end(), [what](float v) { return v == what; });
}

}  // namespace

TEST_CASE("block ownership: an optimizer that began later counts its own steps, with whoever takes the block over",
          "[parallel][fast]") {
  const nn::model_part part{{1, 3}};
  auto t = trainer_of(part);
  const parallel::exchange_state state;
  parallel::shared_blocks blocks{t.context(), state};
  parallel::block_ownership held;
  held.begin(part, 4, {});
  held.assigned({1, 3}, 0);
  const parallel::step_record taken{.step = 21, .state = 70, .updates = 7};
  held.moved_to(taken.state, {});
  t.context().inner().resume(t.model().parameters().length(), 7);
  for (const auto& moment : t.context().inner().moments()) std::fill(moment.begin(), moment.end(), 2.0F);

  REQUIRE(held.count_steps(blocks, taken));
  CHECK(held.began(part) == 0);
  CHECK(t.context().inner().steps() == 7);
  CHECK(all_are(t.context().inner().moments()[1], 2.0F));

  held.begin_optimizer(blocks, 5);
  CHECK(held.began(part) == 5);
  CHECK(all_are(t.context().inner().moments()[0], 0.0F));
  CHECK(all_are(t.context().inner().moments()[1], 0.0F));
  t.context().inner().moments()[1][0] = 3.0F;
  REQUIRE(held.count_steps(blocks, taken));
  CHECK(t.context().inner().steps() == 2);
  CHECK(t.context().inner().moments()[1][0] == 3.0F);
  REQUIRE(held.count_steps(blocks, taken));
  CHECK(t.context().inner().steps() == 2);

  auto other = trainer_of(nn::model_part{{3, 4}});
  parallel::shared_blocks others{other.context(), state};
  parallel::block_ownership taker;
  taker.begin(nn::model_part{{3, 4}}, 4, {});
  taker.moved_to(taken.state, {});
  REQUIRE(taker.change(others, part, taken));
  CHECK(other.context().inner().steps() == 7);
  for (const std::int64_t b : {1, 2}) {
    const auto contents = held.contents(blocks, b);
    REQUIRE(contents);
    CHECK(contents->size() == taker.contents_size(others, b));
    taker.put(others, b, *contents);
  }
  CHECK(taker.began(part) == 5);
  REQUIRE(taker.count_steps(others, taken));
  CHECK(other.context().inner().steps() == 2);
  CHECK(other.context().inner().moments()[1][0] == 3.0F);

  // A part that was never lost counts from the run's first step again.
  REQUIRE(taker.change(others, nn::model_part{{0, 1}}, taken));
  REQUIRE(taker.count_steps(others, taken));
  CHECK(other.context().inner().steps() == 7);
}

TEST_CASE("block ownership: what is saved says when its optimizer began", "[parallel][fast]") {
  const io::memory_storage disk;
  const parallel::block_store store{io::any_storage{disk}, "blocks"};
  const nn::model_part part{{1, 3}};
  const parallel::exchange_state state;
  const parallel::step_record taken{.step = 9, .state = 90, .updates = 9};
  {
    auto t = trainer_of(part);
    parallel::shared_blocks blocks{t.context(), state};
    parallel::block_ownership held;
    held.begin(part, 4, store);
    held.assigned({1, 3}, 0);
    held.moved_to(taken.state, {});
    held.begin_optimizer(blocks, 5);
    held.begin_optimizer(blocks, 8);  // lost twice
    for (const std::int64_t b : {1, 2}) REQUIRE(held.save(blocks, b, taken));
  }
  auto t = trainer_of(part);
  parallel::shared_blocks blocks{t.context(), state};
  parallel::block_ownership held;
  held.begin(part, 4, store);
  parallel::saved_blocks found{.state = taken};
  found.add(1);
  found.add(2);
  held.went_back(taken, found);
  REQUIRE(held.change(blocks, part, taken));
  CHECK(held.began(part) == 8);
  REQUIRE(held.count_steps(blocks, taken));
  CHECK(t.context().inner().steps() == 1);
}

TEST_CASE("block ownership: what another block is made up of are the shared parameters and what the policy keeps for them",
          "[parallel][fast]") {
  const nn::model_part part{{1, 3}};
  auto t = trainer_of(part);
  std::vector<float> shared(t.context().parameters().size(), 3.0F), velocity(shared.size(), 4.0F);
  parallel::exchange_state state;
  state.rows = [&] { return std::vector<parameter_row>{{{shared}}, {{velocity}}}; };
  parallel::shared_blocks blocks{t.context(), state};
  parallel::block_ownership held;
  held.begin(part, 4, {});
  const parallel::step_record taken{.step = 21, .state = 70, .updates = 7};
  held.moved_to(taken.state, {});
  t.context().inner().resume(std::ssize(shared), 7);
  for (const auto& moment : t.context().inner().moments()) std::fill(moment.begin(), moment.end(), 2.0F);

  const auto sources = held.sources(blocks, 2);
  REQUIRE(sources);
  const auto length = static_cast<std::size_t>(t.model().block_length(2));
  REQUIRE(sources->size() == 2 * length);
  CHECK(held.sources_size(blocks, 2) == 2 * length);
  CHECK(all_are(std::span{*sources}.first(length), 3.0F));
  CHECK(all_are(std::span{*sources}.subspan(length), 4.0F));
  held.begin_optimizer(blocks, 7);
  CHECK(all_are(t.context().inner().moments()[1], 0.0F));
  CHECK(all_are(velocity, 4.0F));  // the outer optimizer goes on
}
