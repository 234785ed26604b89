// SPDX-License-Identifier: Apache-2.0
#include <causeway/parallel/elastic/shared_blocks.hpp>

#include <causeway/comm/every_step.hpp>
#include <causeway/optim/adamw.hpp>
#include <causeway/train/trainer.hpp>

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "support/catch.hpp"
#include "support/pipelines.hpp"

using namespace causeway;

TEST_CASE("shared blocks: a block takes along the shared parameters, both optimizers' state and no progress",
          "[parallel][fast]") {
  auto model = nn::gpt::create(support::small_gpt(2), kernels::cpu_backend{1}, nn::model_part{{0, 1}});
  auto t = make_trainer(std::move(*model), environment{}, trainer_options{}, comm::every_step<>{}, optim::adamw{});
  auto& ctx = t.context();
  std::vector<float> shared(ctx.parameters().size(), 3.0F), velocity(shared.size(), 4.0F);
  std::vector<std::size_t> divided;
  parallel::exchange_state state;
  state.rows = [&] {
    const std::size_t half = velocity.size() / 2;
    return std::vector<parameter_row>{{{shared}}, {{std::span{velocity}.first(half), std::span{velocity}.subspan(half)}}};
  };
  state.divide = [&](std::span<const parameter_segment> before) -> result<void> {
    divided = {before.size(), ctx.model().parameters().segments().size()};
    return {};
  };
  parallel::shared_blocks blocks{ctx, state};
  CHECK(blocks.parameters().data() == shared.data());
  const auto moments = blocks.inner().moments();
  REQUIRE(moments.size() == 3);
  CHECK(moments[0].pieces.front().data() == ctx.inner().moments()[0].data());
  CHECK(moments[2].pieces.front().data() == velocity.data());
  blocks.begin_from_shared();
  CHECK(std::all_of(ctx.parameters().begin(), ctx.parameters().end(), [](float v) { return v == 3.0F; }));
  state.parameters_of = [](std::uint32_t path, std::span<float> to) {
    std::fill(to.begin(), to.end(), static_cast<float>(path));
  };
  blocks.begin_from_shared(7);
  CHECK(std::all_of(ctx.parameters().begin(), ctx.parameters().end(), [](float v) { return v == 7.0F; }));
  REQUIRE(blocks.hold(nn::model_part{{0, 2}}, 5));
  REQUIRE(divided.size() == 2);
  CHECK(divided[1] > divided[0]);
}
