// SPDX-License-Identifier: Apache-2.0
#include <causeway/optim/adamw.hpp>
#include <causeway/presets/compressed.hpp>

#include <string>
#include <utility>

#include "row.hpp"

namespace losses {

using namespace causeway;
using presets::make;

namespace {

/// Its code's mean is over those who sent an entry, its paper's over all.
row sparse_loco_row(const std::string& variation, presets::sparse_loco_options o, bool in_table = false) {
  row r = make_row(
      "sparse_loco" + variation, "k=64 of a tile",
      [o](const plan& p) {
        presets::sparse_loco_options here = o;
        here.local_steps = p.local_steps;
        return make(here);
      },
      [] { return optim::adamw{}; });
  r.in_table = in_table;
  return r;
}

/// Target L4: with a decay of 0 what is not sent is lost. An entry that one of 8 peers sends moves by all that this peer
/// kept of it, where others kept nearly the same: hence rates down to one over the peers.
std::vector<row> sparse_loco_rows() {
  std::vector<row> rows{sparse_loco_row("", {}, true), sparse_loco_row(", mean over all", {.over_all = true}, true),
                        sparse_loco_row(", mean over all, no error feedback", {.error_decay = 0, .over_all = true})};
  for (const auto& [name, rate] : {std::pair{"1/2", 0.5F}, {"1/4", 0.25F}, {"1/8", 0.125F}, {"1/16", 0.0625F}}) {
    const bool of_peers = rate == 0.125F;
    const std::string with_rate = std::string{", outer rate "} + name;
    rows.push_back(sparse_loco_row(with_rate, {.outer_learning_rate = rate}));
    rows.push_back(sparse_loco_row(with_rate + ", clipped", {.outer_learning_rate = rate, .clips = true}));
    if (!of_peers) continue;
    rows.push_back(sparse_loco_row(with_rate + ", no error feedback", {.error_decay = 0, .outer_learning_rate = rate}));
  }
  rows.push_back(sparse_loco_row(", clipped", {.clips = true}));
  rows.push_back(sparse_loco_row(", no error feedback", {.error_decay = 0}));
  return rows;
}

}  // namespace

std::vector<row> compressed_rows() {
  const auto adamw = [] { return optim::adamw{}; };
  std::vector<row> rows = sparse_loco_rows();
  rows.push_back(make_row(
      "sparta", "5 % in every step", [](const plan&) { return make(presets::sparta_options{.share = 0.05}); }, adamw));
  rows.push_back(make_row(
      "sparta_diloco", "5 % in every step, 10 H",
      [](const plan& p) {
        return make(presets::sparta_diloco_options{
            .sparta = {.share = 0.05}, .local_steps = 10 * p.local_steps, .outer_momentum = p.momentum});
      },
      adamw));
  return rows;
}

}  // namespace losses
