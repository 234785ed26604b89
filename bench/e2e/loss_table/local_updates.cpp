// SPDX-License-Identifier: Apache-2.0
#include <causeway/optim/adamw.hpp>
#include <causeway/optim/muon.hpp>
#include <causeway/presets/local_updates.hpp>

#include "row.hpp"

namespace losses {

using namespace causeway;
using presets::make;

std::vector<row> local_update_rows() {
  const auto adamw = [] { return optim::adamw{}; };
  std::vector<row> rows;
  rows.push_back(make_row(
      "every_step", "", [] { return presets::every_step{}; }, adamw));
  for (const std::uint32_t h : {20U, 100U}) {
    rows.push_back(make_row(
        h == 20 ? "diloco" : "diloco H=100", "H=" + std::to_string(h) + ", outer momentum 0.6",
        [h] { return make(presets::diloco_options{.local_steps = h, .outer_momentum = 0.6F}); }, adamw));
  }
  rows.push_back(make_row(
      "open_diloco", "H=20, outer momentum 0.6",
      [] { return make(presets::open_diloco_options{{.local_steps = 20, .outer_momentum = 0.6F}}); }, adamw));
  rows.push_back(make_row(
      "intellect1", "H=20, outer momentum 0.6",
      [] { return make(presets::intellect1_options{.local_steps = 20, .outer_momentum = 0.6F}); }, adamw));
  rows.push_back(make_row(
      "muloco", "H=20, outer momentum 0.6, Muon, rate 0.02",
      [] { return make(presets::muloco_options{.local_steps = 20, .outer_momentum = 0.6F}); },
      [] { return optim::muon<>{{.adamw_rate = 0.4F}}; }, {.rate = 0.02F}));
  rows.push_back(make_row(
      "local_sgd", "H=20", [] { return make(presets::local_sgd_options{.local_steps = 20}); }, adamw));
  rows.push_back(make_row(
      "fedavg", "H=20, half of the peers", [] { return make(presets::fedavg_options{.local_steps = 20, .share = 0.5}); },
      adamw));
  rows.push_back(make_row(
      "photon", "H=20, all peers", [] { return make(presets::photon_options{.local_steps = 20}); }, adamw));
  rows.push_back(make_row(
      "co_learning", "H=10 growing to 80",
      [] { return make(presets::co_learning_options{{.local_steps = 10, .most = 80, .factor = 2, .tolerance = 0.05}}); },
      adamw));
  rows.push_back(make_row(
      "des_loc", "periods 20, 60, 120",
      [] {
        return make(presets::des_loc_options{.parameters_every = 20, .first_moment_every = 60, .second_moment_every = 120});
      },
      adamw));
  return rows;
}

}  // namespace losses
