// SPDX-License-Identifier: Apache-2.0
#include <causeway/parallel/pipeline.hpp>

#include <causeway/comm/every_step.hpp>
#include <causeway/comm/periodic.hpp>

#include "support/catch.hpp"
#include "support/pipelines.hpp"

namespace causeway::parallel {
namespace {

using support::pipeline_case;
using support::small_gpt;

// Any of the schedules, so that this file has one kind of pipeline to compile, or two.
struct chosen {
  static constexpr std::string_view name = "chosen";
  [[nodiscard]] std::uint32_t chunks() const { return parts; }
  [[nodiscard]] static std::uint32_t room() { return 0; }
  [[nodiscard]] static plan::run_order order() { return plan::run_order::strict; }
  [[nodiscard]] result<plan::schedule> make(std::uint32_t ranks, std::uint32_t micro_batches) const {
    return made(ranks, micro_batches);
  }
  result<plan::schedule> (*made)(std::uint32_t, std::uint32_t) = &plan::one_f_one_b;
  std::uint32_t parts = 1;
  plan::stage_path way = plan::stage_path::round;
  [[nodiscard]] plan::stage_path path() const { return way; }
};

auto with(chosen order) {
  return [order](const pipeline_options& o) { return pipeline<chosen>{o, order}; };
}
auto alone = [] { return comm::every_step<>{}; };
auto diloco = [] { return comm::periodic<>{{.local_steps = 2}}; };

// Not compared by CHECK itself, which would print every parameter.
bool same(const support::trained_model& a, const support::trained_model& b) { return a == b; }

void check_schedule(chosen order, std::int64_t layers = 4) {
  for (const std::uint32_t ranks : {1U, 2U, 4U}) {
    const pipeline_case c{.ranks = ranks};
    const auto whole = support::train_whole(small_gpt(layers), c, alone);
    const auto cut = support::train_pipelines(small_gpt(layers), c, alone, with(order), order.chunks(), order.path());
    CAPTURE(ranks);
    CHECK(cut.losses == whole.losses);
    CHECK(same(cut, whole));
  }
}

// Where gradients are added up in another order.
void check_close(const support::trained_model& cut, const support::trained_model& whole) {
  REQUIRE(cut.losses.size() == whole.losses.size());
  for (std::size_t i = 0; i < whole.losses.size(); ++i) CHECK(cut.losses[i] == Approx(whole.losses[i]).epsilon(1e-6));
  CHECK(cut.evaluated == Approx(whole.evaluated).epsilon(1e-5));
  for (const auto& [name, values] : whole.parameters) {
    float off = 0;
    for (std::size_t i = 0; i < values.size(); ++i) off = std::max(off, std::abs(values[i] - cut.parameters.at(name)[i]));
    CAPTURE(name);
    CHECK(off < 2e-4F);  // AdamW's first steps are of size 0.01 whatever the gradient
  }
}

constexpr auto two_ways = plan::stage_path::two_ways;

void check_two_ways(chosen order, pipeline_case c, bool tie) {
  auto o = small_gpt();
  o.tie = tie;
  const auto cut = support::train_pipelines(o, c, alone, with(order), 2, two_ways);
  check_close(cut, support::train_whole(o, c, alone));
  // the ends of the model are on the first rank and the last
  for (const auto& [name, values] : cut.last_rank) CHECK((values == cut.parameters.at(name)));
}

}  // namespace

TEST_CASE("pipeline: losses and parameters of the unsplit model, bit for bit, with every schedule", "[parallel][fast]") {
  SECTION("GPipe") { check_schedule({&plan::gpipe}); }
  SECTION("1F1B") { check_schedule({&plan::one_f_one_b}); }
  SECTION("zero bubble") { check_schedule({&plan::zero_bubble}); }
  SECTION("zero bubble, twice ahead") { check_schedule({&plan::zero_bubble_h2}); }
  SECTION("Varuna, with recomputation") {
    check_schedule({[](std::uint32_t ranks, std::uint32_t m) { return stage::varuna{}.make(ranks, m); }});
  }
  SECTION("interleaved") {
    check_schedule({[](std::uint32_t ranks, std::uint32_t m) { return plan::interleaved(ranks, 2, m); }, 2}, 8);
  }
  SECTION("ZB-V, whose first rank has both ends") {
    check_schedule({&plan::zero_bubble_v, 2, plan::stage_path::folded}, 8);
  }
  SECTION("ZB-V, with recomputation") {
    const auto again = [](std::uint32_t ranks, std::uint32_t m) -> result<plan::schedule> {
      CAUSEWAY_ASSIGN(const plan::schedule s, plan::zero_bubble_v(ranks, m));
      return plan::with_recompute(s);
    };
    check_schedule({again, 2, plan::stage_path::folded}, 8);
  }
}

TEST_CASE("pipeline: a folded one has a tied table on one rank, and what passes between its own stages is not sent",
          "[parallel][fast]") {
  auto o = small_gpt(8);
  o.tie = true;
  const pipeline_case c{.ranks = 2, .replicas = 2, .clip_norm = 0.05F};
  const chosen folded{&plan::zero_bubble_v, 2, plan::stage_path::folded};
  const auto cut = support::train_pipelines(o, c, alone, with(folded), 2, folded.path());
  check_close(cut, support::train_whole(o, c, alone));
  const pipeline_case one{.ranks = 1};
  CHECK(support::train_pipelines(o, one, alone, with(folded), 2, folded.path()).bytes_sent == 0);
}

TEST_CASE("pipeline: two ways train as the unsplit model does, to rounding, and both copies of a stage stay the same",
          "[parallel][fast]") {
  const bool tie = GENERATE(false, true);
  check_two_ways({&plan::chimera, 2, two_ways}, {.ranks = 2}, tie);
  check_two_ways({&plan::chimera, 2, two_ways}, {.ranks = 4, .sequences = 8, .clip_norm = 0.05F}, tie);
  check_two_ways({&plan::dual_pipe, 2, two_ways}, {.ranks = 4, .micro_batches = 8, .clip_norm = 0.05F}, tie);
  check_two_ways({&plan::dual_pipe, 2, two_ways}, {.ranks = 2, .replicas = 2, .micro_batches = 8}, tie);
}

TEST_CASE("pipeline: copies of a stage take part in rounds of three replicas, and stay the same", "[parallel][fast]") {
  const pipeline_case c{.ranks = 2, .replicas = 3, .steps = 4};
  const chosen order{&plan::chimera, 2, two_ways};
  const auto cut = support::train_pipelines(small_gpt(), c, diloco, with(order), 2, two_ways);
  check_close(cut, support::train_whole(small_gpt(), c, diloco));
  for (const auto& [name, values] : cut.last_rank) CHECK((values == cut.parameters.at(name)));
}

TEST_CASE("pipeline: a model without the blocks that a schedule's path needs is refused, with the remedy",
          "[parallel][fast]") {
  std::vector<std::string> errors(2);
  support::run_cluster(2, [&](std::uint32_t peer, environment env) {
    const pipeline_options o{.micro_batches = 4, .ranks = 2};
    auto part = part_of(o, *place_in(o, peer, 2), 4, 2);
    auto model = nn::gpt::create(small_gpt(4), kernels::cpu_backend{1}, std::move(*part));
    auto t = make_trainer(std::move(*model), std::move(env), {}, alone(),
                          with({&plan::zero_bubble_v, 2, plan::stage_path::folded})(o));
    if (const auto started = t.start(); !started) errors[peer] = started.error().text();
  });
  for (const std::string& e : errors) CHECK_THAT(e, Catch::Contains("parallel::part_of, with the chunks and the path"));
}

TEST_CASE("pipeline: dropout draws the masks of the unsplit model", "[parallel][fast]") {
  auto o = small_gpt();
  o.dropout = 0.2F;
  const pipeline_case c{.ranks = 2};
  CHECK(same(support::train_pipelines(o, c, alone, with({})), support::train_whole(o, c, alone)));
}

TEST_CASE("pipeline: replicas average with any communication policy within their stage", "[parallel][fast]") {
  const pipeline_case c{.ranks = 2, .replicas = 2, .steps = 4};
  CHECK(same(support::train_pipelines(small_gpt(), c, alone, with({})), support::train_whole(small_gpt(), c, alone)));
  CHECK(same(support::train_pipelines(small_gpt(), c, diloco, with({})), support::train_whole(small_gpt(), c, diloco)));
}

TEST_CASE("pipeline: gradients are clipped by the norm of the whole model, a tied table counted once", "[parallel][fast]") {
  auto o = small_gpt();
  o.tie = GENERATE(false, true);
  const pipeline_case c{.ranks = 4, .clip_norm = 0.05F};
  const auto whole = support::train_whole(o, c, alone);
  check_close(support::train_pipelines(o, c, alone, with({})), whole);
}

TEST_CASE("pipeline: a tied table stays the same at both ends, after rounds of three replicas too", "[parallel][fast]") {
  auto o = small_gpt();
  o.tie = true;
  const pipeline_case c{.ranks = 2, .replicas = 3, .steps = 4};
  const auto cut = support::train_pipelines(o, c, diloco, with({}));
  CHECK((cut.parameters.at("wte.weight") == cut.last_rank.at("wte.weight")));
}

}  // namespace causeway::parallel
