// SPDX-License-Identifier: Apache-2.0
// Peers whose speeds differ by a factor of three push when they are done. Quick ones take more steps, so that all end at
// about the same time; together they train on as many tokens as everybody else.
#include <causeway/optim/adamw.hpp>
#include <causeway/presets/asynchronous.hpp>
#include <causeway/presets/local_updates.hpp>

#include "row.hpp"

namespace losses {

using namespace causeway;
using presets::make;

namespace {

std::vector<double> speeds_of(std::uint32_t peers) {
  std::vector<double> speeds;
  for (std::uint32_t p = 0; p < peers; ++p) speeds.push_back(p % 4 == 0 ? 0.5 : p % 4 == 3 ? 1.5 : 1.0);
  return speeds;
}

/// `policy` makes one for a plan.
template <class MakePolicy>
row uneven_row(std::string name, std::string settings, MakePolicy policy) {
  return {std::move(name), "speeds 0.5, 1, 1, 1.5" + (settings.empty() ? settings : ", " + settings), [=](const plan& p) {
            return train(
                p, [&] { return policy(p); }, [] { return optim::adamw{}; }, {.speeds = speeds_of(p.peers)});
          }};
}

/// Two regions of neighbours.
std::vector<std::vector<net::peer_index>> halves(std::uint32_t peers) {
  std::vector<std::vector<net::peer_index>> all(2);
  for (std::uint32_t p = 0; p < peers; ++p) all[p < peers / 2 ? 0 : 1].push_back(p);
  return all;
}

/// Target L7: what the delayed momentum is good for, with the same number of steps for everybody's push.
void add_momentum_rows(std::vector<row>& rows) {
  rows.push_back(uneven_row("asynchronous delayed Nesterov", "", [](const plan& p) {
    optim::delayed_nesterov momentum{{.momentum = p.momentum, .period = p.peers}};
    return comm::async_parameter_server{axis::every{p.local_steps},
                                        axis::outer<optim::delayed_nesterov>{0.7F, std::move(momentum)}};
  }));
  rows.back().in_table = false;
  for (const bool divided : {false, true}) {
    const std::string name = divided ? "asynchronous Nesterov, rate 0.7/peers" : "asynchronous Nesterov";
    rows.push_back(uneven_row(name, "", [divided](const plan& p) {
      const float rate = divided ? 0.7F / static_cast<float>(p.peers) : 0.7F;
      return comm::async_parameter_server{axis::every{p.local_steps},
                                          axis::outer<optim::nesterov>{rate, optim::nesterov{{.momentum = p.momentum}}}};
    }));
    rows.back().in_table = false;
  }
}

}  // namespace

std::vector<row> asynchronous_rows() {
  std::vector<row> rows;
  rows.push_back(uneven_row("async_local_sgd", "H of the quickest", [](const plan& p) {
    return make(
        presets::async_local_sgd_options{.local_steps = p.local_steps, .period = p.peers, .outer_momentum = p.momentum});
  }));
  rows.push_back(uneven_row("halos", "two regions", [](const plan& p) {
    return make(presets::halos_options{.regions = halves(p.peers), .local_steps = p.local_steps, .pushes = 8});
  }));
  rows.push_back(uneven_row("decoupled_diloco", "4 fragments", [](const plan& p) {
    return make(
        presets::decoupled_diloco_options{.local_steps = p.local_steps, .fragments = 4, .outer_momentum = p.momentum});
  }));
  // A meeting after as long as H steps of a peer of speed 1 take, so that peers have made 5 to 15.
  rows.push_back(uneven_row("a_edit", "meetings every H steps of 50 ms", [](const plan& p) {
    return make(presets::a_edit_options{
        .seconds = p.local_steps * seconds(step_time), .fewest_steps = p.peers, .outer_momentum = p.momentum});
  }));
  rows.push_back(make_row(
      "dlion", "", [](const plan& p) { return make(presets::dlion_options{.local_steps = p.local_steps}); },
      [] { return optim::adamw{}; }));
  add_momentum_rows(rows);
  return rows;
}

}  // namespace losses
