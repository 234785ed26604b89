// SPDX-License-Identifier: Apache-2.0
#include "policies.hpp"

#include <causeway/presets/asynchronous.hpp>
#include <causeway/presets/compressed.hpp>
#include <causeway/presets/gossip.hpp>
#include <causeway/presets/local_updates.hpp>
#include <causeway/presets/overlapped.hpp>

#include <algorithm>
#include <charconv>

#include "chosen_model.hpp"
#include "training.hpp"

namespace app {
namespace {

namespace presets = causeway::presets;
using defaults = std::vector<std::pair<std::string, std::string>>;

template <class T>
std::string text(T value) {
  char digits[64];
  return {digits, std::to_chars(digits, digits + sizeof digits, value).ptr};
}

/// The settings of whatever has local steps and an outer optimizer.
template <class Options>
defaults outer_defaults(const Options& o) {
  return {{"comm.local_steps", text(o.local_steps)},
          {"comm.outer_learning_rate", text(o.outer_learning_rate)},
          {"comm.outer_momentum", text(o.outer_momentum)}};
}

defaults operator+(defaults a, const defaults& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

std::vector<policy> local_update_policies() {
  const presets::muloco_options muloco;
  const presets::fedavg_options fedavg;
  const presets::photon_options photon;
  return {
      {"diloco",
       "inner steps alone, then an outer Nesterov step along the mean of the ways gone",
       {},
       train_composed,
       true},
      {"open_diloco", "diloco with fp16 on the wire",
       outer_defaults(presets::open_diloco_options{}) + defaults{{"comm.codec", "fp16"}}, train_composed, true},
      {"local_sgd", "parameters are averaged every few steps", {}, train_composed, true},
      {"every_step", "gradients are averaged in every step", {}, train_composed, true},
      {"muloco", "diloco with inner Muon and 2 bits a value",
       outer_defaults(muloco) + defaults{{"comm.error_decay", text(muloco.error_decay)},
                                         {"train.optimizer", "muon"},
                                         {"train.learning_rate", "0.02"}},
       train_muloco},
      {"fedavg",
       "a share of the peers is drawn for each round and averaged",
       {{"comm.local_steps", text(fedavg.local_steps)}, {"comm.share", text(fedavg.share)}},
       train_fedavg},
      {"photon", "fedavg with an outer momentum", outer_defaults(photon) + defaults{{"comm.share", text(photon.share)}},
       train_photon},
  };
}

std::vector<policy> overlapped_policies() {
  const presets::streaming_diloco_options streaming;
  return {
      {"streaming_diloco", "diloco one fragment after another, 4 bits a value, while training goes on",
       outer_defaults(streaming) + defaults{{"comm.fragment_blocks", text(streaming.blocks_in_fragment)},
                                            {"comm.overlap_steps", text(streaming.overlap_steps)},
                                            {"comm.local_share", text(streaming.local_share)}},
       train_streaming_diloco},
      {"eager_diloco", "diloco with a whole round for each exchange; a peer's own part is not late",
       outer_defaults(presets::eager_diloco_options{}), train_eager_diloco},
  };
}

std::vector<policy> compressed_policies() {
  const presets::sparse_loco_options sparse;
  const presets::demo_options demo;
  const presets::sparta_options sparta;
  const presets::cocktail_sgd_options cocktail;
  const presets::dedloc_options dedloc;
  return {
      {"sparse_loco",
       "local steps; the largest changes in 2 bits, the rest is kept for later",
       {{"comm.local_steps", text(sparse.local_steps)},
        {"comm.sparse_k", text(sparse.k)},
        {"comm.error_decay", text(sparse.error_decay)},
        {"comm.outer_learning_rate", text(sparse.outer_learning_rate)}},
       train_sparse_loco},
      {"demo",
       "in every step the largest frequencies of the momentum; the step is their sign",
       {{"comm.sparse_k", text(demo.k)}, {"train.optimizer", "sgd"}, {"train.clip", "0"}},
       train_demo},
      {"sparta",
       "in every step a few parameters, the same on all peers, are averaged",
       {{"comm.share", text(sparta.share)}},
       train_sparta},
      {"cocktail_sgd",
       "in every step the largest of a random part, in 4 bits, one step late",
       {{"comm.share", text(cocktail.mask_share)}, {"comm.sparse_k", text(cocktail.k)}},
       train_cocktail_sgd},
      {"dedloc",
       "gradients gather, each peer at its pace, until all have enough samples together",
       {{"comm.batch_samples", text(dedloc.batch)}},
       train_dedloc},
  };
}

std::vector<policy> other_policies() {
  const presets::noloco_options noloco;
  const presets::moshpit_sgd_options moshpit;
  const presets::async_local_sgd_options async;
  const presets::decoupled_diloco_options decoupled;
  return {
      {"noloco",
       "random pairs; nothing ever waits for all peers",
       {{"comm.local_steps", text(noloco.local_steps)},
        {"comm.group_size", text(noloco.group_size)},
        {"comm.outer_learning_rate", text(noloco.outer.beta)},
        {"comm.outer_momentum", text(noloco.outer.alpha)}},
       train_noloco},
      {"moshpit_sgd",
       "peers in a grid average along one axis after the other",
       {{"comm.local_steps", text(moshpit.local_steps)},
        {"comm.group_size", text(moshpit.side)},
        {"comm.dimensions", text(moshpit.dimensions)}},
       train_moshpit_sgd},
      {"async_local_sgd", "peers push to the first one when they are done, and wait for nobody; slow ones take fewer steps",
       outer_defaults(async), train_async_local_sgd},
      {"decoupled_diloco", "the same with one fragment after another, in 4 bits, while training goes on",
       outer_defaults(decoupled) + defaults{{"comm.fragments", text(decoupled.fragments)},
                                            {"comm.quorum", text(decoupled.quorum)},
                                            {"comm.overlap_steps", text(decoupled.overlap_steps)},
                                            {"comm.local_share", text(decoupled.local_share)}},
       train_decoupled_diloco},
  };
}

const std::vector<policy>& all_policies() {
  static const std::vector<policy> all = [] {
    std::vector<policy> list = local_update_policies();
    for (const auto& more : {overlapped_policies(), compressed_policies(), other_policies()}) {
      list.insert(list.end(), more.begin(), more.end());
    }
    return list;
  }();
  return all;
}

template <class Wanted>
std::string names_of(Wanted wanted) {
  std::string names;
  for (const policy& p : all_policies()) {
    if (wanted(p)) names += (names.empty() ? "" : ", ") + p.name;
  }
  return names;
}

}  // namespace

const policy* find_policy(std::string_view name) {
  for (const policy& p : all_policies()) {
    if (p.name == name) return &p;
  }
  return nullptr;
}

std::string policy_names() {
  return names_of([](const policy&) { return true; });
}

std::string elastic_policy_names() {
  return names_of([](const policy& p) { return p.elastic(); });
}

bool sets_by_itself(std::string_view name, std::string_view setting) {
  const policy* const p = find_policy(name);
  return p != nullptr &&
         std::any_of(p->defaults.begin(), p->defaults.end(), [&](const auto& one) { return one.first == setting; });
}

bool of_some_policies(std::string_view setting) {
  const std::vector<policy>& all = all_policies();
  return setting.starts_with("comm.") && !sets_by_itself("open_diloco", setting) &&
         std::any_of(all.begin(), all.end(), [&](const policy& p) { return sets_by_itself(p.name, setting); });
}

std::string policy_help() {
  std::string text;
  for (const policy& p : all_policies()) {
    std::string line = "  " + p.name;
    line.resize(22, ' ');
    text += line + p.help + "\n";
    std::string settings;
    for (const auto& [name, value] : p.defaults) settings += (settings.empty() ? "" : ", ") + name + " " + value;
    if (!settings.empty()) text += std::string(24, ' ') + settings + "\n";
  }
  return text;
}

}  // namespace app
