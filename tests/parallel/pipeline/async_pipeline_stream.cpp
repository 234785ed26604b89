// SPDX-License-Identifier: Apache-2.0
#include <causeway/parallel/pipeline/async_pipeline_stream.hpp>

#include <causeway/net/memory_transport.hpp>

#include <algorithm>
#include <cstdint>
#include <deque>
#include <vector>

#include "support/catch.hpp"
#include "support/models.hpp"

// A stage that is the whole model, whose parameters move between a micro-batch's forward and its backward.
namespace causeway::parallel {
namespace {

constexpr nn::gpt_options small{.layers = 1, .heads = 2, .width = 16, .context = 8, .vocabulary = 29, .tie = false};

struct whole_stage {
  explicit whole_stage(nn::precision precision, bool stashing)
      : model{nn::gpt::create(of(precision), kernels::cpu_backend{1}).value()},
        stream{
            {end, {0}}, {.shape = shape}, {.blocks = {0, 1}, .shape = shape, .grad_scale = 0.125F, .stashing = stashing}} {
    for (std::int32_t i = 0; i < 8; ++i) tokens.push_back(i * 3 % 29);
  }

  static nn::gpt_options of(nn::precision precision) {
    nn::gpt_options o = small;
    o.precision = precision;
    return o;
  }
  [[nodiscard]] batch view() const { return {tokens, tokens, 1}; }
  void move_parameters() {
    for (float& v : model.parameters().values()) v *= 1.25F;
    model.parameters().touch();
  }
  // Those of the output layer come with the loss, in the forward, and are not what is looked at here.
  void clear_gradients() {
    for (float& v : model.parameters().gradients()) v = 0;
  }
  [[nodiscard]] std::vector<float> gradients() {
    const auto g = model.parameters().gradients();
    return {g.begin(), g.end()};
  }

  static constexpr stream_shape shape{.sequences = 1, .rows = 8, .width = 16};
  net::any_transport end;
  nn::gpt model;
  stage::plain codec;
  async_stream<nn::gpt, stage::plain> stream;
  std::vector<std::int32_t> tokens;
};

// The gradient of one micro-batch, and of one whose parameters moved, with another forward, before it came back.
struct two_gradients {
  std::vector<float> at_once, late;
  double loss_at_once = 0, loss_late = 0;
  bool restored = false;
};

two_gradients both(nn::precision precision, bool stashing) {
  two_gradients g;
  whole_stage direct{precision, stashing}, moved{precision, stashing};
  REQUIRE(direct.stream.forward(direct.model, direct.codec, 0, direct.view(), 0));
  direct.clear_gradients();
  g.loss_at_once = direct.stream.backward(direct.model, direct.codec).value();
  g.at_once = direct.gradients();

  REQUIRE(moved.stream.forward(moved.model, moved.codec, 0, moved.view(), 0));
  REQUIRE(moved.stream.end_step(moved.model, 0));
  CHECK(moved.stream.stashed() == (stashing ? 1 : 0));
  moved.move_parameters();
  REQUIRE(moved.stream.forward(moved.model, moved.codec, 1, moved.view(), 0));
  const std::vector<float> now(moved.model.parameters().values().begin(), moved.model.parameters().values().end());
  moved.clear_gradients();
  g.loss_late = moved.stream.backward(moved.model, moved.codec).value();
  g.late = moved.gradients();
  const auto after = moved.model.parameters().values();
  g.restored = std::equal(now.begin(), now.end(), after.begin());
  REQUIRE(moved.stream.end_step(moved.model, 1));
  CHECK(moved.stream.in_flight() == 1);
  return g;
}

}  // namespace

TEST_CASE("async stream: with stashing a late backward has the bits of one at once, also in bf16", "[parallel][fast]") {
  for (const nn::precision precision : {nn::precision::f32, nn::precision{nn::precision::bf16}}) {
    const auto g = both(precision, true);
    CHECK(g.loss_late == g.loss_at_once);
    CHECK(g.restored);
    CHECK((g.late == g.at_once));
  }
}

TEST_CASE("async stream: without stashing it goes back through the parameters of now", "[parallel][fast]") {
  const auto g = both(nn::precision::f32, false);
  CHECK(g.loss_late == g.loss_at_once);
  CHECK(g.restored);
  CHECK((g.late != g.at_once));
}

// Forwards of three ranks in one thread.
TEST_CASE("async stream: the first rank's word that a stream ends goes to all others", "[parallel][fast]") {
  nn::gpt_options o = small;
  o.layers = 3;
  const std::vector<std::int32_t> tokens{1, 2, 3, 4, 5, 6, 7, 8};
  stage::plain codec;
  net::memory_network network{3};
  std::deque<net::any_transport> ends;
  std::deque<nn::gpt> models;
  std::deque<async_stream<nn::gpt, stage::plain>> streams;
  for (std::uint32_t r = 0; r < 3; ++r) {
    const nn::block_range blocks{r, r + 1};
    models.push_back(nn::gpt::create(o, kernels::cpu_backend{1}, nn::model_part{blocks}).value());
    streams.emplace_back(collective::group_view{ends.emplace_back(network.transport(r)), {0, 1, 2}},
                         async_pipeline_mailbox<stage::plain>::options{.shape = whole_stage::shape},
                         stream_setup{.rank = r, .ranks = 3, .blocks = blocks, .shape = whole_stage::shape});
  }
  std::uint64_t number = 0;
  for (const bool said : {false, true, false}) {
    for (std::uint32_t r = 0; r < 3; ++r) {
      REQUIRE(streams[r].forward(models[r], codec, number, {tokens, tokens, 1}, 0, r == 0 ? said : !said));
      CHECK(streams[r].ends() == said);
    }
    ++number;
  }
}

}  // namespace causeway::parallel
