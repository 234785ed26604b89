// SPDX-License-Identifier: Apache-2.0
#include "plan_batches.hpp"

#include <causeway/plan/batch_rate.hpp>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <string>
#include <vector>

namespace app {
namespace {

namespace plan = causeway::plan;

/// Of the whole model, for a sequence.
plan::block_cost whole_of(const plan::model_cost& cost) {
  plan::block_cost whole = cost.embedding;
  whole += cost.head;
  for (const plan::block_cost& b : cost.blocks) whole += b;
  return whole;
}

double slowest_mbit_s(const plan::link_matrix& links) {
  double slowest = std::numeric_limits<double>::infinity();
  for (std::size_t a = 0; a < links.size(); ++a) {
    for (std::size_t b = 0; b < links.size(); ++b) {
      if (a != b) slowest = std::min(slowest, links(a, b).bandwidth / 1e6);
    }
  }
  return slowest;
}

causeway::result<std::uint32_t> most_of(const device_list& all, std::size_t d, const plan::block_cost& whole) {
  constexpr double limit = 4096;  // a larger batch is none for a step
  const double room = all.devices[d].memory - whole.memory;
  if (room < whole.activation) {
    return causeway::fail(causeway::errc::out_of_memory, all.names[d],
                          "does not hold the model and a sequence (" +
                              std::to_string(static_cast<int>((whole.memory + whole.activation) / 1e9) + 1) +
                              " GB on each would do); leave it out, or plan a pipeline");
  }
  return static_cast<std::uint32_t>(std::min(limit, room / whole.activation));
}

}  // namespace

causeway::result<void> print_batches(const plan::transformer_shape& shape, const plan::link_matrix& links,
                                     const device_list& all, const plan::training_bytes& bytes) {
  const plan::model_cost cost = plan::cost_of(shape, static_cast<double>(shape.context), bytes);
  const plan::block_cost whole = whole_of(cost);
  plan::batch_rate_task task{.peers = static_cast<std::uint32_t>(all.devices.size()),
                             .place_bytes = 0};  // of a group of 16 values it is a byte or two
  task.tensors.push_back(static_cast<std::uint64_t>(cost.embedding.parameters + cost.head.parameters));
  for (const plan::block_cost& b : cost.blocks) task.tensors.push_back(static_cast<std::uint64_t>(b.parameters));
  std::vector<plan::device_pace> paces;
  std::vector<std::uint32_t> most;
  for (std::size_t d = 0; d < all.devices.size(); ++d) {
    CAUSEWAY_ASSIGN(const std::uint32_t fits, most_of(all, d, whole));
    most.push_back(fits);
    paces.push_back({1, all.devices[d].speed / whole.seconds * 1.5});  // backward is two thirds of a pass
  }
  const double mbit_s = slowest_mbit_s(links);
  const auto batches = plan::choose_batches(task.quality, paces, most, mbit_s);
  std::printf("%-24s %9s %9s\n", "device", "sequences", "at most");
  std::uint64_t sum = 0;
  for (std::size_t d = 0; d < batches.size(); ++d) {
    sum += batches[d];
    std::printf("%-24s %9u %9u\n", (all.names[d] + "@" + all.regions[d]).c_str(), batches[d], most[d]);
  }
  std::printf("\nglobal batch %llu, %.3f s for its passes; over %.0f Mbit/s meanwhile: share %.5f\n",
              static_cast<unsigned long long>(sum), plan::pass_seconds(paces, batches), mbit_s,
              std::min(1.0, task.peers * plan::choose_share(task, paces, batches, mbit_s)));
  return {};
}

}  // namespace app
