// SPDX-License-Identifier: Apache-2.0
#include <causeway/plan/liveput.hpp>

#include <algorithm>
#include <cstddef>
#include <limits>
#include <vector>

#include "support/catch.hpp"

using namespace causeway;
using plan::migration_costs;
using plan::pipeline_shape;

namespace {

/// One pipeline of p stages is p times as fast, less 4 % for each further stage; fewer than two do not hold the model.
double speed(const pipeline_shape& s) {
  return s.stages < 2 ? 0 : double(s.instances()) * (1 - 0.04 * double(s.stages - 1));
}

/// Exactly: over all sets of `lost` instances.
double exact_liveput(const pipeline_shape& s, std::size_t available, std::size_t lost) {
  std::vector<char> gone(available, 0);
  std::fill(gone.end() - static_cast<std::ptrdiff_t>(lost), gone.end(), 1);
  double sum = 0, sets = 0;
  do {
    std::vector<std::size_t> alive(s.stages, s.replicas);
    for (std::size_t i = 0; i < s.instances(); ++i) alive[i % s.stages] -= gone[i] != 0 ? 1 : 0;
    sum += speed({*std::min_element(alive.begin(), alive.end()), s.stages});
    sets += 1;
  } while (std::next_permutation(gone.begin(), gone.end()));
  return sum / sets;
}

struct sequence_search {
  const std::vector<std::size_t>& available;
  const migration_costs& costs;

  double best(const pipeline_shape& now, std::size_t instances, std::size_t t) const {
    if (t == available.size()) return 0;
    double most = best({0, 0}, available[t], t + 1);
    for (std::size_t p = 1; p <= std::min<std::size_t>(3, available[t]); ++p) {
      for (std::size_t d = 1; d * p <= available[t]; ++d) {
        const double pause = plan::expected_migration(now, instances, {d, p}, available[t], costs);
        most = std::max(most, speed({d, p}) * std::max(0.0, 60 - pause) + best({d, p}, available[t], t + 1));
      }
    }
    return most;
  }
};

}  // namespace

TEST_CASE("sampled liveput is the mean over all preemptions", "[plan][fast]") {
  for (const pipeline_shape s : {pipeline_shape{3, 3}, {4, 2}, {2, 5}, {1, 4}}) {
    for (std::size_t lost = 0; lost <= 4; ++lost) {
      const double sampled = plan::liveput(s, 11, lost, speed, {.samples = 20000, .seed = 3});
      REQUIRE(sampled == Approx(exact_liveput(s, 11, lost)).epsilon(0.03));
    }
  }
}

TEST_CASE("deep pipelines have more to lose: liveput prefers shallow ones where throughput does not", "[plan][fast]") {
  const auto deeper_is_better = [](const pipeline_shape& s) {
    return double(s.instances()) * (1 + 0.01 * double(s.stages));
  };
  const pipeline_shape deep{2, 8}, shallow{8, 2};
  CHECK(deeper_is_better(deep) > deeper_is_better(shallow));
  CHECK(plan::liveput(deep, 16, 2, deeper_is_better) < plan::liveput(shallow, 16, 2, deeper_is_better));
}

TEST_CASE("no sequence of shapes is expected to do more", "[plan][fast]") {
  for (const migration_costs& costs : {migration_costs{1, 5, 20}, migration_costs{0, 0, 0}, migration_costs{10, 40, 70}}) {
    for (const auto& available : std::vector<std::vector<std::size_t>>{{6, 4, 6}, {5, 5, 3}, {1, 0, 4}}) {
      const sequence_search all{available, costs};
      const auto p = plan::plan_liveput({2, 3}, 6, available, 60, 3, costs, speed);
      REQUIRE(p.samples == Approx(all.best({2, 3}, 6, 0)));
      REQUIRE(p.shapes.size() == 3);
      for (std::size_t t = 0; t < 3; ++t) REQUIRE(p.shapes[t].instances() <= available[t]);
    }
  }
}

TEST_CASE("a shape that costs much to leave is kept through a short dip", "[plan][fast]") {
  const auto by_instances = [](const pipeline_shape& s) { return s.stages >= 3 ? double(s.instances()) : 0.0; };
  const std::vector<std::size_t> dip{12, 10, 12};
  const auto dear = plan::plan_liveput({4, 3}, 12, dip, 60, 5, {2, 10, 55}, by_instances);
  CHECK(dear.shapes == std::vector<pipeline_shape>{{4, 3}, {3, 3}, {4, 3}});
  const auto free = plan::plan_liveput({4, 3}, 12, dip, 60, 5, {}, by_instances);
  CHECK(free.shapes[1].instances() == 10);
}

TEST_CASE("what is trained again when a stage is lost counts, and a shape that cannot lose one is worth a change",
          "[plan][fast]") {
  const auto deeper_is_better = [](const pipeline_shape& s) {
    return s.stages < 2 ? 0.0 : double(s.instances()) * (1 + 0.01 * double(s.stages));
  };
  const std::vector<std::size_t> decline{6, 4};
  const auto served = plan::plan_liveput({2, 3}, 6, decline, 60, 3, {0, 0, 1, 0}, deeper_is_better, {2000, 1});
  CHECK(served.shapes[0] == pipeline_shape{2, 3});
  const auto alone = plan::plan_liveput({2, 3}, 6, decline, 60, 3, {0, 0, 1, 300}, deeper_is_better, {2000, 1});
  CHECK(alone.shapes[0] == pipeline_shape{3, 2});
  // a single pipeline loses one of its two stages for certain
  const auto none_left = plan::plan_liveput({1, 2}, 2, std::vector<std::size_t>{1}, 60, 2, {0, 0, 0, 300}, speed);
  CHECK(none_left.samples == -300);
}
