// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TESTS_SUPPORT_RECOVERY_JOB_HPP
#define CAUSEWAY_TESTS_SUPPORT_RECOVERY_JOB_HPP

// A job with round numbers, for tests of policies against lost stages.

#include <causeway/plan/preemption_trace.hpp>
#include <causeway/plan/recovery.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace causeway::test {

/// Blocks of 3 s (1 forward, 1 for each half of the backward) and 10 bytes of state. A copy or a load of a block takes 1 s,
/// writing it 2 s; a loss is noticed after 1 s, a restart takes 40 s and regrouping 4 s.
inline plan::recovery_job round_job(std::size_t blocks, std::size_t micro_batches) {
  plan::recovery_job job;
  job.model.blocks.assign(blocks, {0, 3, 10, 0});
  job.forward_share = 1.0 / 3;
  job.micro_batches = micro_batches;
  job.link.bandwidth = 80;  // bits per second
  job.detection = 1;
  job.restart = 40;
  job.regroup = 4;
  job.read_bytes_per_second = 10;
  job.write_bytes_per_second = 5;
  return job;
}

inline std::vector<std::uint32_t> peers_from(std::uint32_t first, std::uint32_t end) {
  std::vector<std::uint32_t> some;
  for (; first < end; ++first) some.push_back(first);
  return some;
}

/// `peers` from the start, then what happens; all in one zone.
inline plan::preemption_trace trace_of(std::uint32_t peers, const std::vector<plan::instance_event>& events,
                                       double seconds) {
  plan::preemption_trace t;
  t.zones = {"z"};
  t.seconds = seconds;
  for (std::uint32_t i = 0; i < peers; ++i) t.events.push_back({0, true, i});
  t.events.insert(t.events.end(), events.begin(), events.end());
  std::uint32_t all = peers;
  for (const auto& e : events) all = e.instance >= all ? e.instance + 1 : all;
  for (std::uint32_t i = 0; i < all; ++i) t.instances.push_back({"n" + std::to_string(i), 0});
  return t;
}

}  // namespace causeway::test

#endif  // CAUSEWAY_TESTS_SUPPORT_RECOVERY_JOB_HPP
