// SPDX-License-Identifier: Apache-2.0
#include "plan_skips.hpp"

#include <causeway/plan/routed_time.hpp>
#include <causeway/plan/skip_placement.hpp>
#include <causeway/plan/skip_plan.hpp>
#include <causeway/stage/routing_planned.hpp>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

namespace app {
namespace {

namespace plan = causeway::plan;
namespace routing = causeway::stage::routing;
using paths = std::vector<std::vector<std::uint32_t>>;
using places = std::vector<std::vector<std::size_t>>;  // [stage]: devices

places places_of(const plan::pipeline_plan& p) {
  places all;
  for (std::size_t s = 0; s < p.stages(); ++s) {
    const auto group = p.where.group(s);
    all.emplace_back(group.begin(), group.end());
  }
  return all;
}

/// The same devices, more of them at the ends.
causeway::result<places> places_with_skips(const plan::pipeline_plan& p, const plan::link_matrix& links,
                                           const skip_request& r) {
  const auto& used = p.where.devices;
  plan::link_matrix between{used.size()};
  for (std::size_t a = 0; a < used.size(); ++a) {
    for (std::size_t b = 0; b < used.size(); ++b) between.set(a, b, links(used[a], used[b]));
  }
  plan::skip_places wanted{.stages = p.stages(), .passes = p.stages() - r.skip, .search = r.search};
  wanted.stage_bytes = *std::max_element(p.work.gradient_bytes.begin(), p.work.gradient_bytes.end());
  wanted.message_bytes = p.work.message_bytes * static_cast<double>(p.work.micro_batches);
  CAUSEWAY_ASSIGN(places all, plan::place_for_skips(between, wanted));
  for (auto& stage : all) {
    for (std::size_t& d : stage) d = used[d];
  }
  return all;
}

/// Peers are numbered stage by stage.
plan::skip_task task_of(const plan::pipeline_plan& p, const places& where, const plan::link_matrix& links,
                        const device_list& all, std::size_t passes, std::size_t groups) {
  plan::skip_task task;
  task.passes = passes;
  task.groups_of_peer = task.room = groups;
  task.stages.resize(where.size());
  std::vector<std::size_t> device_of;
  for (std::size_t s = 0; s < where.size(); ++s) {
    for (const std::size_t d : where[s]) {
      const double speed = all.devices[d].speed;
      task.stages[s].push_back(static_cast<std::uint32_t>(device_of.size()));
      task.peers.push_back({p.work.forward[s] / speed, p.work.backward[s] / speed, 0, 0});
      device_of.push_back(d);
    }
  }
  for (const std::size_t from : device_of) {
    auto& row = task.ways.emplace_back();
    for (const std::size_t to : device_of) row.push_back(from == to ? 0 : links(from, to).seconds(p.work.message_bytes));
  }
  const std::size_t middle = where.size() - 2;
  task.most_in_stage = (task.groups() * (passes - 2) + middle - 1) / middle;
  for (std::size_t s = 1; s <= middle; ++s) {  // stages that got fewer peers hold as many groups as the others
    task.room = std::max(task.room, (task.most_in_stage + where[s].size() - 1) / where[s].size());
  }
  return task;
}

/// Every micro-batch keeps to the pipeline in which it begins.
paths straight_paths(const plan::skip_task& task) {
  paths all(task.stages.front().size());
  for (std::size_t r = 0; r < all.size(); ++r) {
    for (const auto& stage : task.stages) all[r].push_back(stage[r]);
  }
  return all;
}

std::string text_of(const paths& all) {
  std::vector<routing::path> ways;
  for (const auto& one : all) {
    auto& way = ways.emplace_back();
    for (const std::uint32_t peer : one) way.push_back(peer == plan::left_out ? routing::left_out : peer);
  }
  return routing::to_text(ways);
}

void print_peers(const places& where, const plan::skip_task& task, const device_list& all) {
  std::printf("\n%-6s peers: --net.index=device\n", "stage");
  for (std::size_t s = 0; s < where.size(); ++s) {
    std::printf("%-6zu", s);
    for (std::size_t i = 0; i < where[s].size(); ++i) {
      std::printf(" %u=%s@%s", task.stages[s][i], all.names[where[s][i]].c_str(), all.regions[where[s][i]].c_str());
    }
    std::printf("\n");
  }
}

}  // namespace

causeway::result<void> print_skips(const plan::pipeline_plan& p, const plan::link_matrix& links, const device_list& all,
                                   const skip_request& r) {
  if (r.skip + 3 > p.stages()) {
    return causeway::fail(causeway::errc::invalid_argument, "--skip",
                          std::to_string(r.skip) + " of " + std::to_string(p.stages()) +
                              " stages: the first and the last always run, and one between them; use more --stages");
  }
  CAUSEWAY_ASSIGN(const places where, places_with_skips(p, links, r));
  const plan::skip_task some = task_of(p, where, links, all, p.stages() - r.skip, r.groups);
  plan::skip_task whole = task_of(p, places_of(p), links, all, p.stages(), r.groups);
  whole.room = some.room;
  const std::size_t micro_batches = p.where.replicas * p.work.micro_batches;
  const plan::skip_plan_options options{.micro_batches = micro_batches, .looks = r.looks};
  CAUSEWAY_ASSIGN(const plan::skip_plan skips, plan::plan_skips(some, options));
  CAUSEWAY_ASSIGN(const plan::skip_plan without, plan::plan_skips(whole, options));
  std::printf(
      "\nevery micro-batch leaves out %zu of %zu middle stages: %zu paths, %zu plans without conflicts in %zu looks\n",
      r.skip, p.stages() - 2, skips.paths.size(), skips.free_of_conflicts, skips.looks);
  print_peers(where, some, all);
  std::printf("--parallel swarm --fault quorum --parallel.router planned --parallel.stages %zu --parallel.paths '%s'\n",
              p.stages(), text_of(skips.paths).c_str());
  std::printf("\na step of %zu micro-batches without averaging, each peer with room for %zu, simulated:\n", micro_batches,
              some.room);
  const auto line = [&](const char* what, double seconds) {
    std::printf("  %-44s %9.3f s, %5.1f %% less\n", what, seconds, 100 * (1 - skips.seconds / seconds));
  };
  std::printf("  %-44s %9.3f s\n", "on these paths", skips.seconds);
  line("on paths through all stages", without.seconds);
  line("every replica a pipeline of its own (DTFM)", plan::seconds_of(whole, straight_paths(whole), micro_batches));
  return {};
}

}  // namespace app
