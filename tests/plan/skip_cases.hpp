// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TESTS_PLAN_SKIP_CASES_HPP
#define CAUSEWAY_TESTS_PLAN_SKIP_CASES_HPP

// The tasks of tests/golden/traces/skippipe_paths.golden, which make_traces_skips.py wrote.

#include <causeway/plan/skip_route.hpp>

#include <cstdint>
#include <string>
#include <vector>

#include "support/traced_runs.hpp"

namespace support {

/// `name`: the kind and the number of a case.
inline causeway::plan::skip_task skip_case(const trace& t, const std::string& name) {
  causeway::plan::skip_task task;
  std::uint32_t peer = 0;
  for (const float size : t.numbers("sizes " + name)) {
    auto& stage = task.stages.emplace_back();
    for (float i = 0; i < size; ++i) stage.push_back(peer++);
  }
  const auto& numbers = t.numbers("numbers " + name);
  task.passes = static_cast<std::size_t>(numbers[0]);
  task.groups_of_peer = static_cast<std::size_t>(numbers[1]);
  task.room = static_cast<std::size_t>(numbers[2]);
  const auto& forward = t.numbers("forward " + name);
  const auto& backward = t.numbers("backward " + name);
  auto way = t.numbers("ways " + name).begin();
  for (std::uint32_t p = 0; p < peer; ++p) {
    task.peers.push_back({double{forward[p]}, double{backward[p]}, 0, 0});
    task.ways.emplace_back(way, way + peer);
    way += peer;
  }
  return task;
}

}  // namespace support

#endif  // CAUSEWAY_TESTS_PLAN_SKIP_CASES_HPP
