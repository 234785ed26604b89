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

/// SparseLoCo with its paper's mean, over all peers, where its code's is over those who sent an entry.
template <class Residual>
row over_all_row(std::string name, Residual residual) {
  return make_row(
      std::move(name), "k=64 of a tile",
      [residual](const plan& p) {
        using codec = presets::detail::sparse_loco_codec;
        return comm::rounds{axis::every{p.local_steps}, residual,
                            axis::gather_mean<codec>{codec{compress::no_transform{}, compress::top_k{{.k = 64}}}},
                            axis::outer<optim::sgd>{1.0F}};
      },
      [] { return optim::adamw{}; });
}

std::vector<row> sparse_loco_rows() {
  const auto adamw = [] { return optim::adamw{}; };
  std::vector<row> rows;
  rows.push_back(make_row(
      "sparse_loco", "k=64 of a tile",
      [](const plan& p) { return make(presets::sparse_loco_options{.local_steps = p.local_steps}); }, adamw));
  rows.push_back(over_all_row("sparse_loco, mean over all", axis::error_feedback{0.95F, 1.0F}));
  // Target L4: the same codec, and what it does not send is lost.
  rows.push_back(over_all_row("sparse_loco, mean over all, no error feedback", axis::no_residual{}));
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
