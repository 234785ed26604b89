// SPDX-License-Identifier: Apache-2.0
// Only a part of what changed is sent.

#include <causeway/presets/compressed.hpp>

#include <algorithm>
#include <cstdint>
#include <utility>

#include "preset.hpp"

namespace app {

namespace presets = causeway::presets;

namespace {

/// Of each peer, where peers come and go: an exchange of all parameters costs as much as a few steps' messages of many
/// peers.
constexpr std::uint32_t steps_in_record = 32;

}  // namespace

std::vector<policy> compressed_policies() {
  const presets::cocktail_sgd_options cocktail;
  return {
      preset<presets::sparse_loco_options>("sparse_loco",
                                           "local steps; the largest changes in 2 bits, the rest is kept for later",
                                           pace::together, {{"comm.over_all", "false"}, {"comm.clips", "false"}},
                                           [](const settings& s, auto& o) {
                                             o.over_all = s.comm.over_all;
                                             o.clips = s.comm.clips;
                                           }),
      preset<presets::demo_options>("demo", "in every step the largest frequencies of the momentum; the step is their sign",
                                    pace::together, {{"train.optimizer", "sgd"}, {"train.clip", "0"}}),
      preset<presets::distro_options>("distro", "demo with one bit a frequency, one step late", pace::overlapping,
                                      {{"train.optimizer", "sgd"}, {"train.clip", "0"}}),
      preset<presets::sparta_options>("sparta", "in every step a few parameters, the same on all peers, are averaged",
                                      pace::together),
      preset<presets::sparta_diloco_options>("sparta_diloco", "sparta between the rounds of diloco", pace::together,
                                             {{"comm.share", text(presets::sparta_options{}.share)}},
                                             [](const settings& s, auto& o) { o.sparta.share = s.comm.share; }),
      preset<presets::cocktail_sgd_options>(
          "cocktail_sgd", "in every step the largest of a random part, in 4 bits, one step late", pace::overlapping,
          {{"comm.share", text(cocktail.mask_share)}}, [](const settings& s, auto& o) { o.mask_share = s.comm.share; }),
      preset<presets::gaia_options>("gaia", "in every step the changes that are significant; the rest is kept for later",
                                    pace::together),
      preset<presets::gaia_asp_options>(
          "gaia_asp", "the same when they come, among peers at their own pace; nobody is too far ahead", pace::nothing,
          {{"comm.group_size", "0"}},
          [](const settings& s, auto& o) {
            if (s.comm.group_size > 0) o.groups = regions_of(replicas_of(s), s.comm.group_size);
            if (s.fault.policy == "quorum") {
              const auto groups = static_cast<std::uint32_t>(std::exchange(o.groups, {}).size());
              o.label.fewest = std::max(groups, 1U);
              if (s.net.region >= 0) o.label.own = static_cast<std::uint32_t>(s.net.region);
            }
            const std::uint64_t batches = shares_batches(s) ? 1 : s.net.peers;
            o.record_samples = steps_in_record * batches * static_cast<std::uint64_t>(s.train.batch);
          }),
      preset<presets::power_sgd_options>("power_sgd", "gradients as two thin factors a matrix", pace::together,
                                         {{"comm.rank", text(presets::power_sgd_options{}.rank)}},
                                         [](const settings& s, auto& o) { o.rank = s.comm.rank; }),
      preset<presets::stella_train_options>(
          "stella_train", "in every step groups of values that reach a threshold, one step late; only those move",
          pace::overlapping,
          {{"comm.share", text(presets::stella_train_options{}.share)},
           {"train.optimizer", "sparse_adam"},
           {"train.clip", "0"},
           {"train.weight_decay", "0"}},
          [](const settings& s, auto& o) { o.share = s.comm.share; }),
      preset<presets::dion_options>("dion", "momentum as two thin factors a matrix, and orthonormal steps of them",
                                    pace::together,
                                    {{"comm.rank", text(presets::dion_options{}.rank)},
                                     {"train.optimizer", "dion"},
                                     {"train.learning_rate", "0.01"},
                                     {"train.clip", "0"}},
                                    [](const settings& s, auto& o) { o.rank = s.comm.rank; }),
      preset<presets::dedloc_options>(
          "dedloc", "gradients gather, each peer at its pace, until all have enough samples together", pace::rounds,
          {{"comm.batch_samples", text(presets::dedloc_options{}.batch)},
           {"train.optimizer", "lamb"},
           {"train.learning_rate", "0.00176"},
           {"train.weight_decay", "0.01"}},
          [](const settings& s, auto& o) { o.batch = s.comm.batch_samples; }),
  };
}

}  // namespace app
