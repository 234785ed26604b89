// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_EXAMPLES_POLICIES_HPP
#define CAUSEWAY_EXAMPLES_POLICIES_HPP

// The communication policies that the program knows by name. Each is instantiated in a file of its own: for a fixed set of
// peers and, if its traits allow that, for peers that come and go. Presets are those of include/causeway/presets; diloco,
// open_diloco, local_sgd and every_step are composed in compose.hpp.

#include <causeway/core/result.hpp>
#include <causeway/policy/rules.hpp>
#include <causeway/policy/traits.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace app {

class chosen_model;
struct session_summary;
struct settings;
struct training;

/// Whether the state of an inner optimizer is two moments in the layout of the parameters, and a count of steps: a part of
/// it can move with a part of the model.
[[nodiscard]] inline bool is_divisible(std::string_view optimizer) { return optimizer == "adamw" || optimizer == "lamb"; }
/// Whether a newcomer can be given its state: what the others have grows at their first step.
[[nodiscard]] inline bool has_whole_state(std::string_view optimizer) {
  return is_divisible(optimizer) || optimizer == "nadam" || optimizer == "snoo";
}

/// Whether its state can move with a stage of a model: that, or at most one moment.
[[nodiscard]] inline bool moves_with_stages(std::string_view optimizer) {
  return is_divisible(optimizer) || optimizer == "sgd" || optimizer.starts_with("sparse_");
}

struct policy {
  std::string name;
  std::string help;                                           ///< one line
  std::vector<std::pair<std::string, std::string>> defaults;  ///< settings that it has its own value for
  causeway::comm_traits traits;                               ///< of its type
  bool has_local_steps;  ///< comm.local_steps means something to it; else there is an exchange in every step
  std::function<causeway::result<session_summary>(chosen_model, training)> train;
  std::uint64_t longest_round = 1;  ///< where rounds grow: in first rounds
  /// Of hubs of hubs: rounds of everybody from one record to the next; else 0.
  std::function<std::uint64_t(const settings&)> record_rounds = [](const settings&) { return 0; };
  bool composed = false;  ///< by compose.hpp, with any comm.codec
  bool in_turn = false;   ///< each fragment has a step of a round to itself
  /// errc::invalid_argument: with these settings no peer could begin.
  std::function<causeway::result<void>(const settings&)> check = [](const settings&) { return causeway::result<void>{}; };

  /// Whether fixed peers may hold stages of pipelines that make the same steps: not where replicas go at their own pace,
  /// for the session of a stage meets those of all others.
  [[nodiscard]] bool in_pipelines() const noexcept {
    const bool in_step = traits.identical_replicas && !traits.gathers_samples && !traits.rounds_by_clock;
    return same_rounds() || (in_step && causeway::rules::c4(traits, {.staged = true, .sums_over_stages = true}));
  }
  /// Whether rounds come after steps that all stages count for themselves.
  [[nodiscard]] bool same_rounds() const noexcept { return causeway::rules::c4(traits, {.staged = true}); }
  /// Whether the peers of a stage that come and go exchange gradients by it. What makes its own steps of them may need an
  /// optimizer whose state cannot move.
  [[nodiscard]] bool gradients_of_stages() const noexcept {
    const auto stays = [](const auto& one) { return one.first == "train.optimizer" && !moves_with_stages(one.second); };
    return causeway::rules::c5(traits, {.shares_gradient = true}) && std::none_of(defaults.begin(), defaults.end(), stays);
  }
  /// And whether peers of pipelines may come and go, with their blocks. Composed ones are made of rounds there.
  [[nodiscard]] bool in_elastic_pipelines() const noexcept {
    using namespace causeway::rules;
    const bool local = c4(traits, {.staged = true, .sums_over_stages = true}) && c7(traits, {.moves_blocks = true});
    const bool together = c4(traits, {.staged = true, .gathers_together = true}) && gradients_of_stages();
    return together || local || (composed && has_local_steps);
  }
  [[nodiscard]] bool in_swarms() const noexcept {
    using namespace causeway::rules;
    const bool local = c4(traits, {.staged = true, .sums_over_stages = true}) && c6(traits, {.computes_late = true});
    return local || (same_rounds() && gradients_of_stages());
  }
};

/// Null if there is none of that name.
const policy* find_policy(std::string_view name);

/// Of what these settings train with: composed policies are others by comm.codec, and where pipelines come and go.
[[nodiscard]] causeway::comm_traits traits_of(const settings& s);

std::vector<std::string> policy_names();
/// As "diloco, local_sgd, ..." those for peers that hold stages: pipelines of a fixed set of them, of others, and swarms.
std::string pipeline_policy_names();
std::string elastic_pipeline_policy_names();
std::string swarm_policy_names();

/// Whether the policy of that name has its own value for a setting.
bool sets_by_itself(std::string_view name, std::string_view setting);
/// Whether a setting means nothing but to the policies that have a value for it.
bool of_some_policies(std::string_view setting);

/// Tensors of the whole model, each of which is in one fragment. With servers they are known to these alone, and this is
/// the largest number there is.
std::size_t tensors_of(const settings& s);
/// Where comm.fragments means something: there are no more.
std::size_t most_fragments(const settings& s);
/// Whether that many fragments, and what else the policy is told, can begin.
causeway::result<void> check_policy(const settings& s);

/// Inner steps between exchanges; where fragments take turns, between those of one of them.
std::uint64_t steps_of_round(const settings& s);
/// Between two exchanges there are no more.
std::uint64_t most_steps_between(const settings& s);
/// Samples that a member of an elastic run needs, to be so far ahead of the others' record.
std::uint64_t samples_at_hand(const settings& s);
/// What `steps` steps of every peer are in steps of the inner optimizer: fewer where all peers gather samples for one.
std::uint64_t optimizer_steps(const settings& s, std::uint64_t steps);
/// And in rounds, where peers have no more than these in common: one, where a round is as many steps as a peer makes in it.
std::uint64_t rounds_of(const settings& s, std::uint64_t steps);

/// Each policy with what it is and what it sets by itself.
std::string policy_help();

causeway::result<session_summary> train_composed(chosen_model, training);

std::vector<policy> local_update_policies();
std::vector<policy> overlapped_policies();
std::vector<policy> compressed_policies();
std::vector<policy> gossip_policies();
std::vector<policy> asynchronous_policies();

}  // namespace app

#endif  // CAUSEWAY_EXAMPLES_POLICIES_HPP
