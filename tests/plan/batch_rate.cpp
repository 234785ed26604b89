// SPDX-License-Identifier: Apache-2.0
#include <causeway/plan/batch_rate.hpp>

#include <causeway/core/rng.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "support/catch.hpp"
#include "support/traced_runs.hpp"

using namespace causeway;
using plan::device_pace;

namespace {

std::vector<double> doubles(const std::vector<float>& x) { return {x.begin(), x.end()}; }

/// The least objective of all batches of three devices.
double least_of_all(const plan::batch_quality& quality, const std::vector<device_pace>& paces,
                    const std::vector<std::uint32_t>& most, double mbit_s) {
  double least = 1e300;
  for (std::uint32_t a = 1; a <= most[0]; ++a) {
    for (std::uint32_t b = 1; b <= most[1]; ++b) {
      for (std::uint32_t c = 1; c <= most[2]; ++c) {
        const std::vector<std::uint32_t> batches{a, b, c};
        least = std::min(least, plan::batch_objective(quality, paces, batches, mbit_s));
      }
    }
  }
  return least;
}

/// Reports of devices that keep to their paces, with so much waiting.
plan::batch_rate_report step_of(const std::vector<device_pace>& paces, const std::vector<std::uint32_t>& batches,
                                double waited, double mbit_s) {
  plan::batch_rate_report r{.batches = batches, .mbit_s = mbit_s};
  for (std::size_t d = 0; d < paces.size(); ++d) {
    r.backward.push_back(paces[d].seconds(batches[d]));
    r.waited.push_back(waited);
  }
  return r;
}

}  // namespace

TEST_CASE("batch rate: paces, batches, shares and bandwidths are those of StellaTrain's trace", "[plan][trace][fast]") {
  const support::trace t{"stella_train_rates"};
  for (int d = 0; d < 3; ++d) {
    const auto& fit = t.numbers("fit " + std::to_string(d));
    const auto pace =
        plan::fit_pace(doubles(t.numbers("batches " + std::to_string(d))), doubles(t.numbers("pace " + std::to_string(d))));
    CHECK(pace.knee == Approx(fit[0]).epsilon(1e-4));
    CHECK(pace.full == Approx(fit[1]).epsilon(1e-4));
  }
  std::vector<device_pace> paces;
  std::vector<std::uint32_t> most;
  for (std::size_t d = 0; d < 3; ++d) {
    paces.push_back({t.numbers("knee")[d], t.numbers("full")[d]});
    most.push_back(static_cast<std::uint32_t>(t.numbers("most")[d]));
  }
  plan::batch_rate_task task{.peers = 4};
  for (const float size : t.numbers("sizes")) task.tensors.push_back(static_cast<std::uint64_t>(size));
  task.quality = {doubles(t.numbers("grid batches")), doubles(t.numbers("grid bandwidth")), doubles(t.numbers("worse"))};
  std::size_t place = 0;
  for (const double share : {0.001, 0.01, 0.1, 1.0}) CHECK(plan::sent_bytes(task, share) == t.numbers("bytes")[place++]);
  for (const int mbit_s : {60, 300, 900}) {
    const auto& best = t.numbers("best " + std::to_string(mbit_s));
    const auto batches = plan::choose_batches(task.quality, paces, most, mbit_s);
    CHECK(plan::batch_objective(task.quality, paces, batches, mbit_s) == Approx(best[0]).epsilon(1e-6));
    for (std::size_t d = 0; d < 3; ++d) CHECK(batches[d] == static_cast<std::uint32_t>(best[2 + d]));
    CHECK(plan::choose_share(task, paces, batches, mbit_s) == Approx(best[1]).margin(1e-5));
  }
  const auto& steps = t.numbers("bandwidths");
  for (std::size_t i = 0; i < t.numbers("after").size(); ++i) {
    const double after = plan::next_bandwidth(steps[4 * i], steps[4 * i + 1], steps[4 * i + 2], steps[4 * i + 3]);
    CHECK(after == Approx(t.numbers("after")[i]).epsilon(1e-6));
  }
}

TEST_CASE("batch rate: batches are nearly as good as the best of all", "[plan][fast]") {
  rng draw{5};
  const auto between = [&](double low, double high) { return low + (high - low) * double{draw.uniform()}; };
  double worst = 1;
  for (int round = 0; round < 30; ++round) {
    std::vector<device_pace> paces;
    std::vector<std::uint32_t> most;
    for (int d = 0; d < 3; ++d) {
      paces.push_back({between(1, 8), between(50, 300)});
      most.push_back(static_cast<std::uint32_t>(4 + draw.below(14)));
    }
    plan::batch_quality quality{{5, 20, 45}, {100, 1000}, {}};
    for (int i = 0; i < 6; ++i) quality.worse.push_back(between(0, 0.1));
    const double mbit_s = between(50, 1200);
    const auto batches = plan::choose_batches(quality, paces, most, mbit_s);
    const double found = plan::batch_objective(quality, paces, batches, mbit_s);
    worst = std::max(worst, found / least_of_all(quality, paces, most, mbit_s));
  }
  CHECK(worst < 1.05);
}

TEST_CASE("batch rate: bandwidths count as where the quality was measured", "[plan][fast]") {
  // 1,000,000 values, a tenth of them 8 bytes each, in segments: 0.8 MB and heads. A batch of 256 takes 1.5 · 256 / 192 s =
  // 2 s and needs half of that a second; of the bandwidth of now it is as if 1,000 Mbit/s were there where that suffices.
  plan::batch_rate_task task{.tensors = {1000000}};
  const std::vector<device_pace> paces{{1, 96}, {1, 96}};
  const std::vector<std::uint32_t> batches{8, 8};
  const double needed = 8e-6 * plan::sent_bytes(task, 0.1) / 2;
  CHECK(plan::like_measured(task, paces, batches, needed) == Approx(1000));
  CHECK(plan::like_measured(task, paces, batches, needed / 4) == Approx(250));
  CHECK(task.quality.at(5, 5) == 0);
}

TEST_CASE("batch rate: a controller learns the paces, and then sends more or less as the network allows", "[plan][fast]") {
  const std::vector<device_pace> real{{20, 200}, {16, 120}};
  plan::batch_rate_task task{.tensors = {2000000}, .peers = 3};
  plan::batch_rate_controller control{task, {48, 48}, {{4, 4}, 0.05}};
  plan::batch_rate now{{4, 4}, 0.05};
  int steps = 0;
  for (; control.mbit_s() == 0 && steps < 200; ++steps) {
    if (auto next = control.seen(step_of(real, now.batches, 0, 80))) now = *next;
  }
  REQUIRE(control.mbit_s() == 80);
  CHECK(steps < 100);  // batches 4, 6, 9, 14, 21, 32, 48, each for some steps
  for (std::size_t d = 0; d < 2; ++d) {
    CHECK(control.paces()[d].knee == Approx(real[d].knee).epsilon(1e-9));
    CHECK(control.paces()[d].full == Approx(real[d].full).epsilon(1e-9));
  }
  // Both take equally long: the quicker one gets 200 / 120 of the other's.
  CHECK(now.batches[0] == Approx(now.batches[1] * 200.0 / 120).margin(1));
  const double seconds = plan::pass_seconds(control.paces(), now.batches);
  CHECK(2 * now.share * 8 * 2000000 == Approx(80e6 / 8 * seconds).epsilon(0.06));  // but for heads

  const double before = now.share;
  for (int i = 0; i < 8; ++i) {
    if (auto next = control.seen(step_of(real, now.batches, 10, 40))) now = *next;
  }
  CHECK(control.mbit_s() == Approx(0.75 * (0.9 * 80 + 0.1 * 40)));
  CHECK(now.share < before);
}
