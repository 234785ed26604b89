// SPDX-License-Identifier: Apache-2.0
#include <causeway/optim/adamw.hpp>
#include <causeway/presets/compressed.hpp>

#include "row.hpp"

namespace losses {

using namespace causeway;
using presets::make;

std::vector<row> compressed_rows() {
  const auto adamw = [] { return optim::adamw{}; };
  std::vector<row> rows;
  rows.push_back(make_row(
      "sparse_loco", "H=20", [] { return make(presets::sparse_loco_options{.local_steps = 20}); }, adamw));
  // Target L4: the same codec, and what it does not send is lost.
  rows.push_back(make_row(
      "sparse_loco without error feedback", "H=20",
      [] {
        using codec = presets::detail::sparse_loco_codec;
        return comm::rounds{axis::every{20},
                            axis::gather_mean<codec>{codec{compress::no_transform{}, compress::top_k{{.k = 64}},
                                                           compress::bits<2>{{.bucket = 4096}}}},
                            axis::outer<optim::sgd>{1.0F}};
      },
      adamw));
  rows.back().in_table = false;
  rows.push_back(make_row(
      "sparta", "5 % in every step", [] { return make(presets::sparta_options{.share = 0.05}); }, adamw));
  rows.push_back(make_row(
      "sparta_diloco", "5 % in every step, H=100, outer momentum 0.6",
      [] {
        return make(presets::sparta_diloco_options{.sparta = {.share = 0.05}, .local_steps = 100, .outer_momentum = 0.6F});
      },
      adamw));
  return rows;
}

}  // namespace losses
