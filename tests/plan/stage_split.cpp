// SPDX-License-Identifier: Apache-2.0
#include <causeway/plan/stage_split.hpp>

#include <causeway/core/rng.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <string>
#include <vector>

#include "support/catch.hpp"

using namespace causeway;
using plan::block_cost;
using plan::model_cost;
using plan::stage_device;
using plan::stage_split;

namespace {

/// Calls `take(first blocks)` for every way to cut `blocks` into `stages`.
template <class Take>
void for_each_split(std::size_t blocks, std::size_t stages, Take take) {
  std::vector<bool> begins(blocks, false);
  std::fill(begins.end() - static_cast<std::ptrdiff_t>(stages - 1), begins.end(), true);
  do {
    if (begins[0]) continue;  // the first stage begins there anyway
    std::vector<std::size_t> first{0};
    for (std::size_t b = 1; b < blocks; ++b) {
      if (begins[b]) first.push_back(b);
    }
    take(stage_split{first, blocks, 0});
  } while (std::next_permutation(begins.begin(), begins.end()));
}

model_cost random_model(rng& draw, std::size_t blocks) {
  const auto cost = [&] {
    return block_cost{1 + 9 * double(draw.uniform()), 1 + 9 * double(draw.uniform()), 1 + 9 * double(draw.uniform()),
                      double(draw.uniform())};
  };
  model_cost m;
  for (std::size_t b = 0; b < blocks; ++b) m.blocks.push_back(cost());
  m.embedding = cost();
  m.head = cost();
  return m;
}

double memory_of(const model_cost& m, const stage_split& s, std::size_t stage, const stage_device& d) {
  const block_cost c = plan::cost_of_stage(m, s.first_block[stage], s.end(stage));
  return c.memory + d.under_way * c.activation;
}

double seconds_of(const model_cost& m, const stage_split& s, const std::vector<stage_device>& devices) {
  double slowest = 0;
  for (std::size_t i = 0; i < devices.size(); ++i) {
    if (memory_of(m, s, i, devices[i]) > devices[i].memory) return std::numeric_limits<double>::infinity();
    slowest = std::max(slowest, plan::cost_of_stage(m, s.first_block[i], s.end(i)).seconds / devices[i].speed);
  }
  return slowest;
}

}  // namespace

TEST_CASE("an even split has stages of as many blocks as any other, or one more", "[plan][fast]") {
  for (std::size_t blocks = 1; blocks <= 20; ++blocks) {
    for (std::size_t stages = 1; stages <= blocks; ++stages) {
      const auto split = plan::split_evenly(blocks, stages);
      REQUIRE(split);
      REQUIRE(split->stages() == stages);
      REQUIRE(split->first_block[0] == 0);
      for (std::size_t s = 0; s < stages; ++s) {
        const std::size_t size = split->end(s) - split->first_block[s];
        REQUIRE((size == blocks / stages || size == (blocks + stages - 1) / stages));
      }
    }
  }
  CHECK(plan::split_evenly(10, 4)->cuts() == std::vector<std::int64_t>{2, 5, 7});
}

TEST_CASE("by parameters and by time no split is better, whatever the devices", "[plan][fast]") {
  rng draw{23};
  for (int round = 0; round < 150; ++round) {
    const std::size_t blocks = 1 + draw.below(9), stages = 1 + draw.below(std::min<std::size_t>(blocks, 5));
    const model_cost m = random_model(draw, blocks);
    std::vector<stage_device> devices;
    for (std::size_t i = 0; i < stages; ++i) {
      devices.push_back({0.5 + 2 * double(draw.uniform()), 15 + 40 * double(draw.uniform()), double(1 + draw.below(4))});
    }
    double fewest = std::numeric_limits<double>::infinity(), quickest = fewest, enough = fewest;
    for_each_split(blocks, stages, [&](const stage_split& s) {
      double parameters = 0, memory = 0;
      for (std::size_t i = 0; i < stages; ++i) {
        parameters = std::max(parameters, plan::cost_of_stage(m, s.first_block[i], s.end(i)).parameters);
        memory = std::max(memory, memory_of(m, s, i, devices[i]));
      }
      fewest = std::min(fewest, parameters);
      enough = std::min(enough, memory);
      quickest = std::min(quickest, seconds_of(m, s, devices));
    });
    const auto small = plan::split_by_parameters(m, stages);
    REQUIRE(small);
    REQUIRE(small->slowest == Approx(fewest));
    const auto quick = plan::split_by_time(m, devices);
    if (std::isfinite(quickest)) {
      REQUIRE(quick);
      REQUIRE(quick->slowest == Approx(quickest));
      REQUIRE(seconds_of(m, *quick, devices) == Approx(quickest));
    } else {
      REQUIRE_FALSE(quick);
      REQUIRE(quick.error().code == errc::out_of_memory);
      for (stage_device& d : devices) d.memory = enough * (1 + 1e-9);
      REQUIRE(plan::split_by_time(m, devices));  // what the message says would do
      for (stage_device& d : devices) d.memory = enough * (1 - 1e-9);
      REQUIRE_FALSE(plan::split_by_time(m, devices));
    }
  }
}

TEST_CASE("of the splits with the same pace the balanced one is taken", "[plan][fast]") {
  model_cost m;
  m.blocks.assign(10, {1, 1, 1, 0});
  const std::vector<stage_device> devices(4);
  const auto split = plan::split_by_time(m, devices);
  REQUIRE(split);
  std::vector<std::size_t> sizes;
  for (std::size_t s = 0; s < 4; ++s) sizes.push_back(split->end(s) - split->first_block[s]);
  std::sort(sizes.begin(), sizes.end());
  CHECK(sizes == std::vector<std::size_t>{2, 2, 3, 3});
}

TEST_CASE("the embedding and the head weigh on their stages, and a device of twice the speed takes twice as much",
          "[plan][fast]") {
  model_cost m;
  m.blocks.assign(12, {1, 1, 1, 0});
  m.embedding.parameters = m.head.parameters = 3;
  const auto by_parameters = plan::split_by_parameters(m, 3);
  REQUIRE(by_parameters);
  CHECK(by_parameters->first_block == std::vector<std::size_t>{0, 3, 9});
  const std::vector<stage_device> devices{{1}, {2}, {1}};
  CHECK(plan::split_by_time(m, devices)->first_block == std::vector<std::size_t>{0, 3, 9});
}

TEST_CASE("what does not fit is refused with what would do", "[plan][fast]") {
  model_cost m;
  m.blocks.assign(4, {1, 1, 3e9, 0.5e9});
  const std::vector<stage_device> devices(2, stage_device{1, 4e9, 2});
  const auto split = plan::split_by_time(m, devices);
  REQUIRE_FALSE(split);
  CHECK(split.error().message.find("8.00 GB") != std::string::npos);
  CHECK(plan::split_evenly(3, 4).error().code == errc::invalid_argument);
  CHECK(plan::split_by_parameters(m, 0).error().code == errc::invalid_argument);
}
