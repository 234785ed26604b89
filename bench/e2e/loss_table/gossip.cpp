// SPDX-License-Identifier: Apache-2.0
#include <causeway/optim/adamw.hpp>
#include <causeway/presets/gossip.hpp>

#include "row.hpp"

namespace losses {

using namespace causeway;
using presets::make;

namespace {

/// Two clusters of neighbours.
collective::region_list halves(std::uint32_t peers) {
  collective::region_list all(2);
  for (std::uint32_t p = 0; p < peers; ++p) all[p < peers / 2 ? 0 : 1].push_back(p);
  return all;
}

std::vector<row> rows_that_know_the_peers() {
  const auto adamw = [] { return optim::adamw{}; };
  std::vector<row> rows;
  rows.push_back(
      {"moshpit_sgd", "side 2", [=](const plan& p) {
         const std::uint32_t dimensions = p.peers == 8 ? 3 : 2;
         return train(
             p,
             [=] {
               return make(presets::moshpit_sgd_options{.local_steps = p.local_steps, .side = 2, .dimensions = dimensions});
             },
             adamw);
       }});
  rows.push_back(
      {"ravnest", "two clusters", [=](const plan& p) {
         return train(
             p, [&] { return make(presets::ravnest_options{.local_steps = p.local_steps, .clusters = halves(p.peers)}); },
             adamw);
       }});
  return rows;
}

}  // namespace

std::vector<row> gossip_rows() {
  const auto adamw = [] { return optim::adamw{}; };
  std::vector<row> rows = rows_that_know_the_peers();
  rows.push_back(make_row(
      "noloco", "", [](const plan& p) { return make(presets::noloco_options{.local_steps = p.local_steps}); }, adamw));
  // Target L6: pairs without the pull toward each other, and a longer round.
  rows.push_back(make_row(
      "noloco without the pull", "gamma=0",
      [](const plan& p) {
        return make(
            presets::noloco_options{.local_steps = p.local_steps, .outer = {.alpha = 0.5F, .beta = 0.7F, .gamma = 0}});
      },
      adamw));
  rows.back().in_table = false;
  rows.push_back(make_row(
      "bacombo", "", [](const plan& p) { return make(presets::bacombo_options{.local_steps = p.local_steps}); }, adamw));
  rows.push_back(make_row(
      "netstorm", "", [](const plan&) { return make(presets::netstorm_options{}); }, adamw));
  return rows;
}

}  // namespace losses
