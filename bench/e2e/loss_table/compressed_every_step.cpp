// SPDX-License-Identifier: Apache-2.0
#include <causeway/optim/adamw.hpp>
#include <causeway/optim/dion.hpp>
#include <causeway/optim/sgd.hpp>
#include <causeway/optim/sparse_steps.hpp>
#include <causeway/presets/compressed.hpp>

#include <cstdint>

#include "row.hpp"

namespace losses {

using namespace causeway;
using presets::make;

std::vector<row> compressed_every_step_rows() {
  const auto adamw = [] { return optim::adamw{}; };
  const auto sgd = [] { return optim::sgd{}; };  // the sign is the step
  std::vector<row> rows;
  rows.push_back(make_row("demo", "SGD, rate times 0.25", [](const plan&) { return make(presets::demo_options{}); }, sgd,
                          {.rate = 0.25F, .clip = 0}));
  rows.push_back(make_row("distro", "SGD, rate times 0.25", [](const plan&) { return make(presets::distro_options{}); },
                          sgd, {.rate = 0.25F, .clip = 0}));
  rows.push_back(make_row(
      "cocktail_sgd", "", [](const plan&) { return make(presets::cocktail_sgd_options{}); }, adamw));
  for (const double share : {0.01, 0.1}) {  // the preset's, and ten times that
    rows.push_back(make_row(
        share < 0.1 ? "stella_train" : "stella_train, 10 %", "Adam of what came, rate times 0.25",
        [share](const plan&) { return make(presets::stella_train_options{.share = share}); },
        [] { return optim::sparse_adam{}; }, {.rate = 0.25F, .clip = 0}));
  }
  // Updates add up.
  rows.push_back({"gaia", "rate over the peers", [=](const plan& p) {
                    const auto policy = [] { return make(presets::gaia_options{}); };
                    return train(p, policy, adamw, {.rate = 1.0F / static_cast<float>(p.peers)});
                  }});
  rows.push_back({"gaia_asp", "rate over the peers", [=](const plan& p) {
                    const auto policy = [] { return make(presets::gaia_asp_options{}); };
                    return train(p, policy, adamw, {.rate = 1.0F / static_cast<float>(p.peers)});
                  }});
  rows.push_back(make_row(
      "power_sgd", "", [](const plan&) { return make(presets::power_sgd_options{}); }, adamw));
  rows.push_back(make_row(
      "dion", "rank 8, rate times 2.5, for vectors as AdamW",
      [](const plan&) { return make(presets::dion_options{.rank = 8}); },
      [] { return optim::dion{{.rank = 8, .adamw_rate = 0.4F, .given = true}}; }, {.rate = 2.5F, .clip = 0}));
  // With the batch of every_step it would be every_step.
  rows.push_back(make_row(
      "dedloc", "twice the batch, half the steps",
      [](const plan& p) {
        return make(presets::dedloc_options{.batch = std::uint64_t{2} * p.peers * static_cast<std::uint64_t>(p.sequences)});
      },
      adamw, {.warmup = 10, .updates = 0.5}));
  return rows;
}

}  // namespace losses
