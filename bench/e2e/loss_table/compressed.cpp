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
row sparse_loco_row(std::string name, bool over_all, float error_decay = 0.95F) {
  return make_row(
      std::move(name), "k=64 of a tile",
      [=](const plan& p) {
        return make(
            presets::sparse_loco_options{.local_steps = p.local_steps, .error_decay = error_decay, .over_all = over_all});
      },
      [] { return optim::adamw{}; });
}

std::vector<row> sparse_loco_rows() {
  // Target L4: with a decay of 0 what is not sent is lost.
  std::vector<row> rows{sparse_loco_row("sparse_loco", false), sparse_loco_row("sparse_loco, mean over all", true),
                        sparse_loco_row("sparse_loco, mean over all, no error feedback", true, 0)};
  rows.back().in_table = false;
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
