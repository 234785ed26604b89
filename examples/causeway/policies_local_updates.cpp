// SPDX-License-Identifier: Apache-2.0
// Local updates and means of them, alone (SNOO), with others and by modules; optimizers that are presets.

#include <causeway/nn/prefix_features.hpp>
#include <causeway/presets/local_updates.hpp>
#include <causeway/presets/modular.hpp>
#include <causeway/presets/optimizers.hpp>

#include "path_layout.hpp"
#include "preset.hpp"

namespace app {

namespace presets = causeway::presets;

namespace {

/// every_step with the inner optimizer of that name, which chosen_inner.hpp makes.
policy optimizer_preset(std::string name, std::string help, policy_defaults defaults) {
  defaults.emplace_back("train.optimizer", name);
  const auto train = [](chosen_model model, training t) {
    return run_policy(std::move(model), std::move(t), chosen_policy{causeway::comm::every_step<>{}}, pace::together);
  };
  return {std::move(name), std::move(help), std::move(defaults), causeway::comm::every_step<>::traits, false, train};
}

}  // namespace

std::vector<policy> local_update_policies() {
  const presets::co_learning_options co_learning;
  std::vector<policy> all{
      preset<presets::intellect1_options>("intellect1", "diloco with 8-bit codes around a ring", pace::together),
      preset<presets::muloco_options>("muloco", "diloco with inner Muon and 2 bits a value", pace::together,
                                      {{"train.optimizer", "muon"}, {"train.learning_rate", "0.02"}}),
      preset<presets::fedavg_options>("fedavg", "a share of the peers is drawn for each round and averaged",
                                      pace::together),
      preset<presets::photon_options>("photon", "fedavg with an outer momentum", pace::together),
      preset<presets::co_learning_options>("co_learning", "local_sgd with rounds that double when the model hardly moves",
                                           pace::together, {{"comm.local_steps", text(co_learning.rounds.local_steps)}},
                                           [](const settings& s, auto& o) {
                                             o.rounds.most = o.rounds.most / o.rounds.local_steps * s.comm.local_steps;
                                             o.rounds.local_steps = s.comm.local_steps;
                                           }),
      preset<presets::des_loc_options>(
          "des_loc", "local_sgd that averages the moments of AdamW, too, but more rarely", pace::together,
          {{"comm.local_steps", text(presets::des_loc_options{}.parameters_every)}},
          [](const settings& s, auto& o) {
            o.first_moment_every = o.first_moment_every / o.parameters_every * s.comm.local_steps;
            o.second_moment_every = o.second_moment_every / o.parameters_every * s.comm.local_steps;
            o.parameters_every = s.comm.local_steps;
          }),
      preset<presets::edit_options>(
          "edit", "diloco layer by layer; changes that are out of the ordinary count for nothing, long ones less",
          pace::together),
      preset<presets::a_edit_options>(
          "a_edit", "edit whose peers exchange when they have trained for so long, whatever number of steps that was",
          pace::rounds),
      preset<presets::dipaco_options>(
          "dipaco", "diloco of paths through versions of the model's levels, each on the documents that are sent to it",
          pace::together,
          {{"comm.paths", ""},
           {"comm.route_prefix", text(causeway::nn::usual_prefix)},
           {"comm.route_top", "1"},
           {"comm.route_again", "0"},
           {"comm.route_within", "0"}},
          [](const settings& s, auto& o) {
            const auto versions = path_versions(s);
            o.paths = causeway::axis::every_path(versions, changes_peers(s) ? path_count(s) : s.net.peers);
            o.blocks_per_level = blocks_of_level(s, versions.size());
          }),
      optimizer_preset("snoo", "every_step, and after every few steps an outer Nesterov step of each peer's own",
                       usual_defaults(presets::snoo_options{})),
  };
  for (policy& p : all) {
    if (p.name == "co_learning") p.longest_round = co_learning.rounds.most / co_learning.rounds.local_steps;
  }
  return all;
}

}  // namespace app
