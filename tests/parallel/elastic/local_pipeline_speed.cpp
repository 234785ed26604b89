// SPDX-License-Identifier: Apache-2.0
// Pipelines whose replicas take steps of their own, with batches that follow speed: a round's micro-batches are divided
// anew by how quick replicas were in the last one.
#include <causeway/presets/asynchronous.hpp>

#include <array>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "parallel/elastic/divided_batches.hpp"
#include "parallel/elastic/local_pipeline_world.hpp"
#include "parallel/elastic/newcomers.hpp"
#include "support/catch.hpp"

using namespace causeway;
using namespace std::chrono_literals;

namespace {

using support::shares_after;
using support::slow_boundary;

template <class Order = stage::one_f_one_b, std::uint32_t Steps = support::steps_of_round, std::uint32_t Parts = 12>
struct dlion : support::divided_batches<Parts, Order> {
  [[nodiscard]] static auto policy() { return make(presets::dlion_options{.local_steps = Steps, .sequences = Parts}); }
};
using flushed = dlion<>;
using streamed = dlion<parallel::streamed_steps>;
using flushed_each_step = dlion<stage::one_f_one_b, 1>;
using drained_each_step = dlion<parallel::streamed_steps, 1>;
using four_parts = dlion<stage::one_f_one_b, support::steps_of_round, 4>;
/// All that changed is sent.
struct all_of_it : flushed {
  [[nodiscard]] static auto policy() {
    return make(
        presets::dlion_options{.local_steps = support::steps_of_round, .sequences = 12, .multiple = 1, .threshold = 1e-6F});
  }
};

/// The slot of the slow host in the run's last round, and how many of twelve micro-batches it and the other have.
template <class Options>
std::pair<std::uint32_t, std::uint32_t> ends_with(std::uint64_t steps) {
  const auto o = support::twelve_parts(steps);
  support::local_world<Options> w{o};
  w.boot();
  w.run();
  CHECK(support::errors_of(w, o.hosts).empty());
  REQUIRE(w.finished() == o.hosts);
  support::holders_agree(w, o.hosts);
  CHECK(shares_after(w, 1) == std::vector<std::uint32_t>{6, 6});
  stage::layout::place at;
  REQUIRE(w.at(0).layouts.at(steps).find(w.at(slow_boundary::slow).id, &at) != nullptr);
  const auto shares = shares_after(w, steps);
  REQUIRE(shares.size() == 2);
  return {shares.at(at.replica), shares.at(1 - at.replica)};
}

}  // namespace

TEMPLATE_TEST_CASE("local pipeline: a replica of half the speed has half as many micro-batches",
                   "[parallel][elastic][fast]", flushed, streamed, flushed_each_step, drained_each_step) {
  CHECK(ends_with<TestType>(12) == std::pair{4U, 8U});
}

TEST_CASE("local pipeline: with parts by speed two pipelines come to two whole models by hand",
          "[parallel][elastic][fast]") {
  const auto o = support::twelve_parts();
  support::local_world<all_of_it> w{o};
  w.boot();
  w.run();
  REQUIRE(w.finished() == o.hosts);
  const auto parts = [&](std::size_t m, std::uint64_t step) {
    const std::int64_t first = shares_after(w, step + 1).at(0);
    return m == 0 ? index_range{0, first} : index_range{first, 12};
  };
  CHECK(parts(0, 8).size() != 6);
  const auto by_hand = support::models_by_hand<2>(
      o,
      [&](std::uint64_t steps, parameter_store& shared, const auto& models) {
        if (steps % support::steps_of_round != 0) return;
        const float weight = static_cast<float>(parts(0, steps - 1).size()) / 12;
        for (std::size_t i = 0; i < models[0].size(); ++i) {
          float& mean = shared.values()[i];
          mean = models[0][i] = models[1][i] = weight * models[0][i] + (1 - weight) * models[1][i];
        }
      },
      parts);
  CHECK(support::off(support::holders_agree(w, o.hosts), by_hand, o.layers) < 1e-4);
}

TEMPLATE_TEST_CASE("local pipeline: parts by speed go on whoever is lost, and let others in", "[parallel][elastic]",
                   four_parts, (dlion<stage::one_f_one_b, 1, 4>)) {
  support::goes_on_whoever_is_killed<TestType>(29, 0.03);
  support::lets_newcomers_in<TestType>();
}

TEST_CASE("local pipeline: parts by speed are those of the round, also after all were stopped",
          "[parallel][elastic][fast]") {
  support::goes_on_from_checkpoints<four_parts>();
}

TEST_CASE("local pipeline: a spare peer takes a lost one's place, and that slot's part", "[parallel][elastic]") {
  auto o = support::two_pipelines();
  o.steps = 12;
  support::spare_peers_take_over<four_parts>(o, 700, 97, [&](const auto& all, const auto& quiet) {
    CHECK(std::abs(support::held_out_loss(all, o.layers) / support::held_out_loss(quiet, o.layers) - 1) < 0.03);
  });
}

TEST_CASE("local pipeline: parts by speed, whoever is lost at every single network call",
          "[parallel][elastic][local_pipeline][slow][every_call]") {
  support::goes_on_whoever_is_killed<four_parts>(3, 0.03);
}

TEMPLATE_TEST_CASE("local async pipeline: parts by speed go on whoever is lost, and let others in",
                   "[parallel][elastic][slow][every_call]", (dlion<parallel::streamed_steps, support::steps_of_round, 4>),
                   (dlion<parallel::streamed_steps, 1, 4>)) {
  support::goes_on_whoever_is_killed<TestType>(29, 0.03);
  support::lets_newcomers_in<TestType>();
}

namespace {

struct of_other_size : flushed {
  [[nodiscard]] static auto policy() { return make(presets::dlion_options{.sequences = 64}); }
};

}  // namespace

TEST_CASE("local pipeline: parts that are not its micro-batches are refused with what to set",
          "[parallel][elastic][fast]") {
  const auto o = support::twelve_parts();
  support::local_world<of_other_size> w{o};
  w.boot();
  w.run(1min);
  CHECK(w.finished() == 0);
  CHECK(support::errors_of(w, o.hosts).find("set `multiple` to the sequences of one") != std::string::npos);
}
