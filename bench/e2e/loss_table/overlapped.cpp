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
        tau == 1 ? "streaming_diloco" : "streaming_diloco tau=5",
        "H=20, blocks one by one, tau=" + std::to_string(tau) + ", outer momentum 0.6",
        [tau] {
          return make(presets::streaming_diloco_options{
              .local_steps = 20, .blocks_in_fragment = 1, .overlap_steps = tau, .outer_momentum = 0.6F});
        },
        adamw));
    rows.back().in_table = tau == 1;
  }
  rows.push_back(make_row(
      "eager_diloco", "H=20, outer momentum 0.6",
      [] { return make(presets::eager_diloco_options{.local_steps = 20, .outer_momentum = 0.6F}); }, adamw));
  rows.push_back(make_row(
      "cocodc", "H=20, blocks one by one, outer momentum 0.6",
      [] { return make(presets::cocodc_options{.local_steps = 20, .blocks_in_fragment = 1, .outer_momentum = 0.6F}); },
      adamw));
  return rows;
}

}  // namespace losses
