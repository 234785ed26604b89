// SPDX-License-Identifier: Apache-2.0
#include "named_presets.hpp"

#include <numeric>
#include <string_view>
#include <utility>
#include <vector>

#include "option.hpp"
#include "policies.hpp"

namespace app {
namespace {

using values = std::vector<std::pair<std::string, std::string>>;

struct named_system {
  std::string name;
  std::string help;  ///< one line
  values sets;
};

values pipeline(values more) {
  values all{{"parallel.policy", "pipeline"}, {"comm.policy", "every_step"}};
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

values elastic_pipeline(const std::string& recovery, values more = {}) {
  more.insert(more.begin(), {{"fault.policy", "quorum"}, {"parallel.recovery", recovery}});
  return pipeline(std::move(more));
}

values swarm(values more) {
  more.insert(more.begin(), {{"parallel.policy", "swarm"}, {"fault.policy", "quorum"}});
  return more;
}

const std::vector<named_system>& systems() {
  static const std::vector<named_system> all{
      {"varuna", "stages recompute just before their gradient arrives, and run what is ready",
       pipeline({{"parallel.schedule", "varuna"}, {"parallel.codec", "fp16"}})},
      {"dtfm", "GPipe with half precision between stages; `causeway plan` says which peer holds which stage",
       pipeline({{"parallel.schedule", "gpipe"}, {"parallel.codec", "fp16"}})},
      {"aq_sgd_pipeline", "activations as quantised changes since the sample's last visit",
       pipeline({{"parallel.schedule", "gpipe"}, {"parallel.codec", "delta_int4"}})},
      {"crosspipe", "the order that list scheduling finds, with backwards in halves",
       pipeline({{"parallel.schedule", "crosspipe"}, {"parallel.codec", "bf16"}})},
      {"fusion_llm", "the largest values alone cross between stages",
       pipeline({{"parallel.schedule", "gpipe"}, {"parallel.codec", "top_k"}})},
      {"protocol_models", "blocks write along few directions, whose coordinates alone cross between stages",
       pipeline({{"parallel.schedule", "gpipe"}, {"parallel.codec", "subspace"}})},
      {"nag_pp",
       "stages that never wait; NAdam's look-ahead makes up for gradients that are late",
       {{"parallel.policy", "async_pipeline"},
        {"comm.policy", "local_sgd"},
        {"train.optimizer", "nadam"},
        {"train.weight_decay", "0.01"},
        {"train.micro_batches", "1"}}},
      {"basis_rotation",
       "stages that never wait; Adam in bases in which late gradients do less harm",
       {{"parallel.policy", "async_pipeline"},
        {"comm.policy", "local_sgd"},
        {"train.optimizer", "basis_rotation"},
        {"train.weight_decay", "0.01"},
        {"train.micro_batches", "1"}}},
      {"oobleck", "pipelines of unequal length from templates, of which some are always left",
       elastic_pipeline("templates")},
      {"varuna_morphing", "another number of stages whenever peers come and go",
       elastic_pipeline("morph", {{"parallel.schedule", "varuna"}})},
      {"parcae", "another number of stages before peers are likely to go",
       elastic_pipeline("proactive", {{"fault.notice", "25"}})},
      {"bamboo", "every peer holds its successor's stage, too, and takes its place", elastic_pipeline("redundant_forward")},
      {"recycle", "a lost peer's micro-batches go to the peers of its stage in other pipelines",
       elastic_pipeline("reroute")},
      {"checkfree", "a lost stage is made up from its neighbours", elastic_pipeline("neighbour_init")},
      {"checkfree_plus",
       "the same, and the first two stages swap, and the last two, so that each can be a copy of the other",
       elastic_pipeline("swapped_neighbours")},
      {"swarm", "every micro-batch goes where least is waiting, in 8 bits",
       swarm({{"comm.policy", "every_step"}, {"parallel.router", "least_load"}, {"parallel.codec", "dynamic_int8"}})},
      {"diloco_swarm", "the same, and a stage's peers take local steps between exchanges",
       swarm({{"comm.policy", "diloco"}, {"comm.local_steps", "50"}, {"parallel.codec", "dynamic_int8"}})},
      {"gwtf", "micro-batches take the ways of least cost through the stages",
       swarm({{"comm.policy", "every_step"}, {"parallel.router", "min_cost_flow"}})},
      {"skippipe", "micro-batches leave out middle stages, on paths that `causeway plan --skip` writes",
       swarm({{"comm.policy", "every_step"},
              {"parallel.router", "planned"},
              {"parallel.stages", "4"},
              {"parallel.paths", "* * - *; * - * *"}})},
      {"learning_at_home",
       "experts learn at servers, in every backward; peers average the rest now and then",
       {{"parallel.policy", "experts"}, {"comm.policy", "local_sgd"}, {"comm.local_steps", "100"}}},
      {"petals_finetune",
       "servers hold a frozen model, and peers train prompts for it",
       {{"parallel.policy", "served"}, {"comm.policy", "every_step"}, {"tune.prompts", "16"}, {"tune.rank", "0"}}},
      {"petals_lora",
       "servers hold a frozen model, and peers train low-rank adapters beside its maps",
       {{"parallel.policy", "served"}, {"comm.policy", "every_step"}, {"tune.prompts", "0"}, {"tune.rank", "8"}}},
  };
  return all;
}

const values& settings_of(std::string_view name) {
  static const values none;
  for (const named_system& one : systems()) {
    if (one.name == name) return one.sets;
  }
  return none;
}

}  // namespace

causeway::result<void> check_preset(const settings& s) {
  if (s.run.preset.empty() || find_policy(s.run.preset) != nullptr || !settings_of(s.run.preset).empty()) return {};
  std::vector<std::string> names = policy_names();
  for (const named_system& one : systems()) names.push_back(one.name);
  return causeway::fail(causeway::errc::invalid_argument, "run.preset", choose_from(names, s.run.preset));
}

void take_preset(settings& s, origins& from) {
  if (s.run.preset.empty()) return;
  const std::string where = "--preset " + s.run.preset;
  auto all = table(s);
  const auto take = [&](const std::string& name, const std::string& value) {
    setting* const item = find(all, name);
    if (item == nullptr || !from.emplace(name, where).second) return;
    item->set(value);
  };
  if (find_policy(s.run.preset) != nullptr) return take("comm.policy", s.run.preset);
  const values& sets = settings_of(s.run.preset);
  for (const auto& [name, value] : sets) take(name, value);
  if (has_stages(s)) take("train.micro_batches", std::to_string(std::gcd<std::int64_t>(s.train.batch, 8)));
}

std::string preset_help() {
  std::string text;
  for (const named_system& one : systems()) {
    std::string line = "  " + one.name;
    line.resize(22, ' ');
    text += line + one.help + "\n";
    std::string sets;
    for (const auto& [name, value] : one.sets) sets += (sets.empty() ? "" : ", ") + name + " " + value;
    text += std::string(24, ' ') + sets + "\n";
  }
  return text;
}

}  // namespace app
