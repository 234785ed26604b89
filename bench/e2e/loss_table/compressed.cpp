// SPDX-License-Identifier: Apache-2.0
#include <causeway/optim/adamw.hpp>
#include <causeway/presets/compressed.hpp>

#include <cstdint>
#include <string>
#include <utility>

#include "row.hpp"

namespace losses {

using namespace causeway;
using presets::make;

namespace {

row sparse_row(std::string name, std::uint32_t k) {
  return make_row(
      std::move(name), "k=" + std::to_string(k) + " of a tile",
      [k](const plan& p) { return make(presets::sparse_loco_options{.local_steps = p.local_steps, .k = k}); },
      [] { return optim::adamw{}; });
}

/// Target L4: the same codec, and what it does not send is lost.
row forgetful_row(std::string name, std::uint32_t k) {
  row r = make_row(
      std::move(name), "k=" + std::to_string(k) + " of a tile",
      [k](const plan& p) {
        using codec = presets::detail::sparse_loco_codec;
        return comm::rounds{axis::every{p.local_steps},
                            axis::gather_mean<codec, collective::contributor_mean>{
                                codec{compress::no_transform{}, compress::top_k{{.k = k}}}},
                            axis::outer<optim::sgd>{1.0F}};
      },
      [] { return optim::adamw{}; });
  r.in_table = false;
  return r;
}

}  // namespace

std::vector<row> compressed_rows() {
  const auto adamw = [] { return optim::adamw{}; };
  std::vector<row> rows{sparse_row("sparse_loco", 64), forgetful_row("sparse_loco without error feedback", 64),
                        sparse_row("sparse_loco, twice as much", 128),
                        forgetful_row("sparse_loco, twice as much, without error feedback", 128)};
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
