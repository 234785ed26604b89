// SPDX-License-Identifier: Apache-2.0
#include <causeway/optim/adamw.hpp>
#include <causeway/presets/overlapped.hpp>

#include "row.hpp"

namespace losses {

using namespace causeway;
using presets::make;

std::vector<row> overlapped_rows() {
  const auto adamw = [] { return optim::adamw{}; };
  std::vector<row> rows;
  for (const std::uint32_t tau : {1U, 5U}) {
    rows.push_back(make_row(
        tau == 1 ? "streaming_diloco" : "streaming_diloco tau=5", "blocks one by one, tau=" + std::to_string(tau),
        [tau](const plan& p) {
          return make(presets::streaming_diloco_options{
              .local_steps = p.local_steps, .blocks_in_fragment = 1, .overlap_steps = tau, .outer_momentum = p.momentum});
        },
        adamw));
    rows.back().in_table = tau == 1;
  }
  // Rows that are a round late and momentum swing up where a round of inner steps ends at the optimum: see the page.
  rows.push_back(make_row(
      "eager_diloco", "outer momentum 0",
      [](const plan& p) {
        return make(presets::eager_diloco_options{.local_steps = p.local_steps, .outer_momentum = 0.0F});
      },
      adamw));
  rows.push_back(make_row(
      "cocodc", "blocks by change",
      [](const plan& p) {
        return make(
            presets::cocodc_options{.local_steps = p.local_steps, .blocks_in_fragment = 1, .outer_momentum = p.momentum});
      },
      adamw));
  return rows;
}

}  // namespace losses
