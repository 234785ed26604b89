// SPDX-License-Identifier: Apache-2.0
// Nobody waits for all others, or nobody has to wait long.

#include <causeway/presets/asynchronous.hpp>

#include <algorithm>
#include <cstdint>
#include <utility>

#include "preset.hpp"

namespace app {

namespace presets = causeway::presets;

namespace {

/// Where peers come and go, all take the hub's state over after so many rounds of everybody: what a lost hub sets back.
constexpr std::uint64_t rounds_in_record = 4;

std::uint64_t samples_of_round(const settings& s) {
  const std::uint64_t batches = shares_batches(s) ? 1 : s.net.peers;
  return batches * s.comm.local_steps * static_cast<std::uint64_t>(s.train.batch);
}

/// Those who push to one hub.
std::uint32_t clients_of(const settings& s) { return shares_batches(s) ? pipelines_of(s) : replicas_of(s); }

/// Of everybody, until each region's hub has pushed up.
std::uint64_t rounds_of_pushes(const presets::halos_options& o, const settings& s) {
  const std::uint32_t size = std::max(s.comm.group_size, 1U);
  return std::max(rounds_in_record, std::uint64_t{(o.pushes + size - 1) / size});
}

}  // namespace

std::vector<policy> asynchronous_policies() {
  std::vector<policy> all{
      preset<presets::async_local_sgd_options>(
          "async_local_sgd",
          "peers push to the first one when they are done, and wait for its answer alone; slow ones take fewer steps",
          pace::nothing, {},
          [](const settings& s, auto& o) {
            o.period = clients_of(s);
            o.record_samples = rounds_in_record * samples_of_round(s);
          }),
      preset<presets::decoupled_diloco_options>(
          "decoupled_diloco", "the same with one fragment after another, in 4 bits, while training goes on", pace::nothing,
          {},
          [](const settings& s, auto& o) {
            o.record_samples = rounds_in_record * samples_of_round(s);
            o.most_batch = static_cast<std::uint32_t>(s.train.batch);
          }),
      preset<presets::halos_options>("halos",
                                     "peers push to their region's hub, which now and then pushes to the first one",
                                     pace::nothing, {{"comm.group_size", "2"}},
                                     [](const settings& s, auto& o) {
                                       o.regions = regions_of(clients_of(s), s.comm.group_size);
                                       if (s.fault.policy != "quorum") return;
                                       o.label.fewest = static_cast<std::uint32_t>(std::exchange(o.regions, {}).size());
                                       if (s.net.region >= 0) o.label.own = static_cast<std::uint32_t>(s.net.region);
                                       o.record_samples = rounds_of_pushes(o, s) * samples_of_round(s);
                                     }),
      preset<presets::dlion_options>(
          "dlion", "batches in proportion to speed; in every step the larger changes, the rest is kept for later",
          pace::together, {},
          [](const settings& s, auto& o) {
            const bool one_batch = is_elastic_pipeline(s) || is_swarm(s);
            o.sequences = (one_batch ? 1 : replicas_of(s)) * static_cast<std::uint32_t>(s.train.batch);
            if (one_batch) o.multiple = static_cast<std::uint32_t>(s.train.batch / s.train.micro_batches);
          }),
  };
  for (policy& p : all) {
    if (p.name == "halos") p.record_rounds = [](const settings& s) { return rounds_of_pushes({}, s); };
  }
  return all;
}

}  // namespace app
