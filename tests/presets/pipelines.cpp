// SPDX-License-Identifier: Apache-2.0
#include <causeway/presets/pipelines.hpp>

#include <causeway/comm/every_step.hpp>
#include <causeway/comm/periodic.hpp>
#include <causeway/optim/adamw.hpp>
#include <causeway/optim/basis_rotation.hpp>
#include <causeway/optim/nadam.hpp>
#include <causeway/plan/link_fixtures.hpp>
#include <causeway/train/trainer.hpp>

#include <cmath>
#include <cstdint>
#include <stdexcept>
#include <vector>

#include "support/catch.hpp"
#include "support/cluster.hpp"
#include "support/timed_stages.hpp"

using namespace causeway;
using presets::make;

namespace {

// Losses of three steps with two pipelines of two ranks.
template <class Pipeline>
std::vector<double> losses(const Pipeline&, const parallel::pipeline_options& o, auto make_policy) {
  std::vector<double> seen;
  support::run_cluster(4, [&](std::uint32_t peer, environment env) {
    const auto place = parallel::place_in(o, peer, 4).value();
    support::timed_stages model{4, 8, parallel::part_of(o, place, 4).value()};
    auto t = make_trainer(std::move(model), std::move(env), trainer_options{}, comm::every_step<>{}, make_policy(),
                          optim::adamw{});
    if (!t.start()) throw std::runtime_error{"start"};
    for (std::uint64_t s = 0; s < 3; ++s) {
      std::vector<std::int32_t> tokens(16);
      for (std::size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<std::int32_t>(i + place.replica);
      const std::vector<std::uint64_t> ids{1, 2, 3, 4, 5, 6, 7, 8};
      const auto report = t.step({tokens, tokens, 8, ids});
      if (!report) throw std::runtime_error{report.error().text()};
      if (place.replica == 0 && place.rank == 0) seen.push_back(report->loss);
    }
  });
  return seen;
}

void check_trains(auto options) {
  options.micro_batches = 4;
  options.ranks = 2;
  const auto policy = make(options);
  const parallel::pipeline_options o{.micro_batches = 4, .ranks = 2};
  const auto seen = losses(policy, o, [&] { return make(options); });
  REQUIRE(seen.size() == 3);
  CHECK(seen[2] < seen[0]);
  CHECK(seen == losses(policy, o, [&] { return make(options); }));
}

}  // namespace

TEST_CASE("presets: pipelines train, and give the same bits again", "[presets][fast]") {
  check_trains(presets::varuna_options{});
  check_trains(presets::dtfm_options{});
  check_trains(presets::aq_sgd_pipeline_options{});
  check_trains(presets::crosspipe_options{});
  presets::fusion_llm_options half;
  half.ratio = 2;
  check_trains(half);
}

TEST_CASE("presets: dtfm takes its places from a plan", "[presets][fast]") {
  presets::dtfm_options o;
  o.where = plan::placed_by_stage({.replicas = 3, .stages = 2});
  const auto rows = presets::detail::rows_of(o.where);
  CHECK(rows == std::vector<std::vector<net::peer_index>>{{0, 3}, {1, 4}, {2, 5}});
}

namespace {

/// The losses of the first stage of two.
template <class Inner>
std::vector<double> streamed(const auto& options) {
  std::vector<double> seen;
  support::run_cluster(2, [&](std::uint32_t peer, environment env) {
    const parallel::pipeline_options cut{.micro_batches = 1, .ranks = 2};
    const auto place = parallel::place_in(cut, peer, 2).value();
    support::timed_stages model{4, 8, parallel::part_of(cut, place, 4).value()};
    auto t = make_trainer(std::move(model), std::move(env), trainer_options{}, comm::periodic<>{{.local_steps = 1000}},
                          make(options), Inner{});
    if (!t.start()) throw std::runtime_error{"start"};
    for (std::uint64_t s = 0; s < 6; ++s) {
      const std::vector<std::int32_t> tokens(8, 3);
      const auto report = t.step({tokens, tokens, 4});
      if (!report) throw std::runtime_error{report.error().text()};
      if (place.rank == 0) seen.push_back(report->loss);
    }
  });
  return seen;
}

}  // namespace

TEST_CASE("presets: nag_pp and basis_rotation stream without a flush; losses come when gradients do", "[presets][fast]") {
  for (const auto& seen : {streamed<optim::nadam>(presets::nag_pp_options{.ranks = 2}),
                           streamed<optim::basis_rotation<>>(presets::basis_rotation_options{.ranks = 2})}) {
    REQUIRE(seen.size() == 6);
    CHECK(std::isnan(seen[0]));  // the first gradient is still on its way back
    CHECK(seen[5] < seen[1]);
  }
}
