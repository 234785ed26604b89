// SPDX-License-Identifier: Apache-2.0
#include <causeway/parallel/elastic/saved_rounds.hpp>

#include <causeway/comm/every_step.hpp>
#include <causeway/io/memory_storage.hpp>
#include <causeway/optim/adamw.hpp>
#include <causeway/parallel/elastic/shared_blocks.hpp>
#include <causeway/train/trainer.hpp>

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "support/pipelines.hpp"

using namespace causeway;

TEST_CASE("saved rounds: a round is there again, block by block, with what the policy keeps alike", "[parallel][fast]") {
  auto model = nn::gpt::create(support::small_gpt(2), kernels::cpu_backend{1});
  auto t = make_trainer(std::move(*model), environment{}, trainer_options{}, comm::every_step<>{}, optim::adamw{});
  auto& ctx = t.context();
  std::vector<float> shared(ctx.parameters().begin(), ctx.parameters().end());
  std::uint64_t due = 30;
  parallel::exchange_state state;
  state.alike = {std::as_writable_bytes(std::span{&due, 1})};
  state.rows = [&] { return std::vector<parameter_row>{{{shared}}}; };
  parallel::shared_blocks blocks{ctx, state};

  const io::memory_storage disk;
  parallel::block_store store{io::any_storage{disk}, "blocks"};
  parallel::saved_rounds saved;
  saved.savers.begin(store);
  parallel::cluster_inventory inventory;
  inventory.snapshot.peers.push_back({.id = 5, .holds = {{0, 2}}});
  inventory.storages = {saved.savers.identity(9, log_sink{})};
  saved.savers.met(inventory);
  const stage::layout alone{{{{{5, {0, 2}}}, 1}}};

  parallel::block_ownership held;
  held.begin(nn::model_part{{0, 2}}, 2, store);
  held.moved_to(77, {});  // nothing is valid where this peer has no assignment
  held.assigned({0, 2}, 0);
  const parallel::step_record record{.step = 3, .state = 77};
  held.begin(nn::model_part{{0, 2}}, 2, store);
  for (std::int64_t b = 0; b < 2; ++b) held.put(blocks, b, parallel::block_contents(held.contents_size(blocks, b), 1.5F));
  REQUIRE(saved.save(blocks, held, alone, record, state, 5));
  REQUIRE(saved.save(blocks, held, alone, record, state, 6));  // it is not the first, and saves nothing

  due = 1;
  const auto found = saved.savers.found(3);
  REQUIRE(found);
  const auto alike = saved.load(*found, record, 2, held, state);
  REQUIRE(alike);
  CHECK(*alike);
  CHECK(due == 30);
  CHECK(held.described(record, 2).holds_all({0, 2}));
  const auto again = held.contents(blocks, 1);
  REQUIRE(again);
  CHECK(again->front() == 1.5F);
  CHECK_FALSE(*saved.load(parallel::saved_states{}, record, 2, held, state));
}
