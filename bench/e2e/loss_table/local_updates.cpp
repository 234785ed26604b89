// SPDX-License-Identifier: Apache-2.0
#include <causeway/optim/adamw.hpp>
#include <causeway/optim/muon.hpp>
#include <causeway/presets/local_updates.hpp>
#include <causeway/presets/optimizers.hpp>

#include "row.hpp"

namespace losses {

using namespace causeway;
using presets::make;

std::vector<row> local_update_rows() {
  const auto adamw = [] { return optim::adamw{}; };
  std::vector<row> rows;
  rows.push_back(make_row(
      "every_step", "", [](const plan&) { return presets::every_step{}; }, adamw));
  rows.push_back(make_row(
      "diloco", "",
      [](const plan& p) {
        return make(presets::diloco_options{
            .local_steps = p.local_steps, .outer_learning_rate = p.outer_rate, .outer_momentum = p.momentum});
      },
      adamw));
  rows.push_back(make_row(
      "diloco, 100 steps", "H=100",
      [](const plan& p) {
        return make(
            presets::diloco_options{.local_steps = 100, .outer_learning_rate = p.outer_rate, .outer_momentum = p.momentum});
      },
      adamw));
  rows.push_back(make_row(
      "open_diloco", "",
      [](const plan& p) {
        return make(presets::open_diloco_options{{.local_steps = p.local_steps, .outer_momentum = p.momentum}});
      },
      adamw));
  rows.push_back(make_row(
      "intellect1", "",
      [](const plan& p) {
        return make(presets::intellect1_options{.local_steps = p.local_steps, .outer_momentum = p.momentum});
      },
      adamw));
  rows.push_back(make_row(
      "muloco", "Muon, rate times 2.5, for vectors as AdamW",
      [](const plan& p) {
        return make(presets::muloco_options{.local_steps = p.local_steps, .outer_momentum = p.momentum});
      },
      [] { return optim::muon<>{{.adamw_rate = 0.4F}}; }, {.rate = 2.5F}));
  rows.push_back(make_row(
      "local_sgd", "", [](const plan& p) { return make(presets::local_sgd_options{.local_steps = p.local_steps}); },
      adamw));
  rows.push_back(make_row(
      "fedavg", "half of the peers",
      [](const plan& p) { return make(presets::fedavg_options{.local_steps = p.local_steps, .share = 0.5}); }, adamw));
  rows.push_back(make_row(
      "photon", "2 H", [](const plan& p) { return make(presets::photon_options{.local_steps = 2 * p.local_steps}); },
      adamw));
  rows.push_back(make_row(
      "co_learning", "H growing to 8 H",
      [](const plan& p) {
        return make(presets::co_learning_options{
            {.local_steps = p.local_steps, .most = 8 * p.local_steps, .factor = 2, .tolerance = 0.05}});
      },
      adamw));
  rows.push_back(make_row(
      "des_loc", "periods H, 3 H, 6 H",
      [](const plan& p) {
        return make(presets::des_loc_options{.parameters_every = p.local_steps,
                                             .first_moment_every = 3 * p.local_steps,
                                             .second_moment_every = 6 * p.local_steps});
      },
      adamw));
  rows.push_back(make_row(
      "edit", "",
      [](const plan& p) { return make(presets::edit_options{.local_steps = p.local_steps, .outer_momentum = p.momentum}); },
      adamw));
  rows.push_back({"snoo", "around AdamW, outer steps every H", [](const plan& p) {
                    const presets::snoo_options o{.local_steps = p.local_steps, .outer_momentum = p.momentum};
                    return train(
                        p, [] { return presets::every_step{}; }, [o] { return make(o); });
                  }});
  return rows;
}

}  // namespace losses
