// SPDX-License-Identifier: Apache-2.0
// Policies in the place of one, each for some blocks. What they exchange is in tests/parallel/elastic.
#include <causeway/train/by_segment.hpp>

#include <causeway/comm/every_step.hpp>
#include <causeway/compress/block_int8.hpp>
#include <causeway/kernels/backend.hpp>
#include <causeway/nn/gpt.hpp>
#include <causeway/optim/sgd.hpp>
#include <causeway/policy/concepts.hpp>
#include <causeway/train/context.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "support/pipelines.hpp"

using namespace causeway;

namespace {

using blocks = nn::block_range;

/// A policy that adds the number of its steps, and where it began, to what it sees of the gradients.
struct adding {
  [[maybe_unused]] static constexpr std::string_view name = "adding";
  [[maybe_unused]] static constexpr comm_traits traits{
      .exchanges_gradients = true, .moves_with_blocks = true, .rows_in_parts = true};
  [[maybe_unused]] static constexpr std::uint32_t state_version = 1;

  result<void> start(auto&) { return {}; }
  result<void> before_inner_step(auto& ctx) {
    for (float& g : ctx.gradients()) g += static_cast<float>(1 + own);
    return {};
  }
  result<void> after_inner_step(auto&) {
    ++steps, ++own;
    return {};
  }
  result<void> finish(auto&) { return {}; }
  void shared(auto& ar) { ar(steps); }
  void adopt(auto&, std::span<const float>) { own = 0; }
  result<void> catch_up(auto&) { return {}; }
  void serialize(auto& ar) { ar(steps, own); }
  [[nodiscard]] adding another() const { return {}; }

  [[nodiscard]] std::vector<parameter_row> block_rows() { return {}; }
  result<void> divide(auto&, std::span<const parameter_segment>) { return {}; }
  [[nodiscard]] std::vector<std::span<std::byte>> memory() { return {std::as_writable_bytes(std::span{&own, 1})}; }
  result<void> forget(auto&) {
    own = 0;
    return {};
  }
  [[nodiscard]] bool exchanges_next() { return true; }
  [[nodiscard]] std::optional<bool> row_waits() { return {}; }

  std::uint64_t steps = 0, own = 0;
};
static_assert(CommunicationPolicy<adding>);

/// And takes gradients where all that it sees is one more.
struct ahead : adding {
  [[maybe_unused]] static constexpr comm_traits traits{
      .exchanges_gradients = true, .moves_with_blocks = true, .rows_in_parts = true, .looks_ahead = true};
  result<double> compute(auto& ctx, const auto& pass) {
    for (float& x : ctx.parameters()) x += 1;
    auto loss = pass();
    for (float& x : ctx.parameters()) x -= 1;
    return loss;
  }
  [[nodiscard]] ahead another() const { return {}; }
};
static_assert(CommunicationPolicy<ahead> && CommunicationPolicy<detail::by_segment<ahead>>);

struct apart {
  static constexpr parallel_traits traits{.shares_gradient = true, .cut_apart = true, .rows_in_parts = true};
};
struct alike {
  static constexpr parallel_traits traits{};
};

auto context() {
  auto model = nn::gpt::create(support::small_gpt(4), kernels::cpu_backend{1});
  return training_context<nn::gpt, optim::sgd>{std::move(*model), optim::sgd{}, environment{}, {}, false};
}

/// The gradient of each block after a step of policies that are not under way.
std::vector<float> of_step(auto& ctx, auto& all, std::size_t segments) {
  ctx.begin_compute();
  REQUIRE(all.before_inner_step(ctx));
  for (std::size_t s = 1; s < segments; ++s) REQUIRE(all.exchange(ctx, s));
  REQUIRE(all.after_inner_step(ctx));
  std::vector<float> firsts;
  for (std::int64_t b = 0; b < 4; ++b) {
    const auto values = parallel::blocks_in(ctx.gradients(), ctx.view().segments, {b, b + 1}, 4);
    for (const float v : values) CHECK(v == values.front());
    firsts.push_back(values.front());
  }
  return firsts;
}

}  // namespace

TEST_CASE("by segment: each policy sees its blocks alone, and stays while these do", "[train][fast]") {
  auto ctx = context();
  detail::by_segment<adding> all;
  REQUIRE(all.start(ctx));
  REQUIRE(all.take(ctx, std::vector<blocks>{{0, 1}, {1, 4}}));
  CHECK(of_step(ctx, all, 2) == std::vector<float>{1, 1, 1, 1});
  CHECK(of_step(ctx, all, 2) == std::vector<float>{2, 2, 2, 2});
  CHECK(all.pattern().steps == 2);
  REQUIRE(all.take(ctx, std::vector<blocks>{{0, 1}, {1, 2}}));  // the second is new, the last blocks are nobody's
  CHECK(of_step(ctx, all, 2) == std::vector<float>{3, 1, 0, 0});
  REQUIRE(all.take(ctx, std::vector<blocks>{{1, 2}}));
  CHECK(of_step(ctx, all, 1) == std::vector<float>{0, 2, 0, 0});
  CHECK(all.pattern().steps == 4);
  REQUIRE(all.take(ctx, {}));  // a spare peer's is of all that it holds
  CHECK(of_step(ctx, all, 1) == std::vector<float>{1, 1, 1, 1});
  CHECK(all.pattern().steps == 5);
}

TEST_CASE("by segment: what is remembered is of a segment, and what all hold alike of none", "[train][fast]") {
  auto ctx = context();
  detail::by_segment<adding> all;
  REQUIRE(all.start(ctx));
  REQUIRE(all.take(ctx, std::vector<blocks>{{0, 2}, {2, 4}}));
  of_step(ctx, all, 2);
  REQUIRE(all.forget_segment(ctx, 1));
  CHECK(of_step(ctx, all, 2) == std::vector<float>{2, 2, 1, 1});
  all.adopt(ctx, {});
  CHECK(of_step(ctx, all, 2) == std::vector<float>{1, 1, 1, 1});
  CHECK(all.pattern().steps == 3);
  CHECK(all.pattern().own == 0);
}

TEST_CASE("by segment: a trainer has it where pipelines are cut apart and a policy needs rows", "[train][fast]") {
  using coded = comm::every_step<compress::block_int8>;
  CHECK(std::is_same_v<detail::policy_for<coded, apart>::type, detail::by_segment<coded>>);
  CHECK(std::is_same_v<detail::policy_for<coded, alike>::type, coded>);
  CHECK(std::is_same_v<detail::policy_for<comm::every_step<>, apart>::type, comm::every_step<>>);
}

TEST_CASE("by segment: gradients are taken ahead in each segment's blocks, by a pass that sees all", "[train][fast]") {
  auto ctx = context();
  detail::by_segment<ahead> all;
  REQUIRE(all.start(ctx));
  REQUIRE(all.take(ctx, std::vector<blocks>{{0, 1}, {2, 4}}));
  for (float& x : ctx.parameters()) x = 1;
  const auto seen = [&] {
    std::vector<float> firsts;
    for (std::int64_t b = 0; b < 4; ++b) {
      const auto values = parallel::blocks_in(ctx.parameters(), ctx.view().segments, {b, b + 1}, 4);
      for (const float v : values) CHECK(v == values.front());
      firsts.push_back(values.front());
    }
    return firsts;
  };
  const auto loss = all.compute(ctx, [&]() -> result<double> {
    CHECK(seen() == std::vector<float>{2, 1, 2, 2});
    return 3.0;
  });
  CHECK(*loss == 3);
  CHECK(seen() == std::vector<float>{1, 1, 1, 1});
}
