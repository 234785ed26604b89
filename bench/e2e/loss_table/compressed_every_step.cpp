// SPDX-License-Identifier: Apache-2.0
#include <causeway/optim/adamw.hpp>
#include <causeway/optim/sgd.hpp>
#include <causeway/presets/compressed.hpp>

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
  rows.push_back({"gaia", "rate over the peers", [=](const plan& p) {
                    const auto policy = [] { return make(presets::gaia_options{}); };
                    return train(p, policy, adamw, {.rate = 1.0F / static_cast<float>(p.peers)});
                  }});
  rows.push_back(make_row(
      "power_sgd", "", [](const plan&) { return make(presets::power_sgd_options{}); }, adamw));
  return rows;
}

}  // namespace losses
