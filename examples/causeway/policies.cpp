// SPDX-License-Identifier: Apache-2.0
#include "policies.hpp"

#include <causeway/comm/every_step.hpp>
#include <causeway/comm/periodic.hpp>
#include <causeway/presets/local_updates.hpp>

#include <algorithm>
#include <utility>

#include "preset.hpp"

namespace app {
namespace {

std::vector<policy> composed_policies() {
  const auto composed = [](std::string name, std::string help, const causeway::comm_traits& traits, bool has_local_steps,
                           policy_defaults defaults = {}) {
    return policy{.name = std::move(name),
                  .help = std::move(help),
                  .defaults = std::move(defaults),
                  .traits = traits,
                  .has_local_steps = has_local_steps,
                  .train = train_composed,
                  .composed = true};
  };
  constexpr causeway::comm_traits periodic = causeway::comm::periodic<>::traits;
  policy_defaults open = usual_defaults(causeway::presets::open_diloco_options{});
  open.emplace_back("comm.codec", "fp16");
  return {
      composed("diloco", "inner steps alone, then an outer Nesterov step along the mean of the ways gone", periodic, true),
      composed("open_diloco", "diloco with fp16 on the wire", periodic, true, std::move(open)),
      composed("local_sgd", "parameters are averaged every few steps", periodic, true),
      composed("every_step", "gradients are averaged in every step", causeway::comm::every_step<>::traits, false),
  };
}

const std::vector<policy>& all_policies() {
  static const std::vector<policy> all = [] {
    std::vector<policy> list = composed_policies();
    for (const auto& more : {local_update_policies(), overlapped_policies(), compressed_policies(), gossip_policies(),
                             asynchronous_policies()}) {
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

std::vector<std::string> policy_names() {
  std::vector<std::string> names;
  for (const policy& p : all_policies()) names.push_back(p.name);
  return names;
}

std::string pipeline_policy_names() {
  return names_of([](const policy& p) { return p.in_pipelines(); });
}

std::string elastic_pipeline_policy_names() {
  return names_of([](const policy& p) { return p.in_elastic_pipelines(); });
}

std::string swarm_policy_names() {
  return names_of([](const policy& p) { return p.in_swarms(); });
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

std::size_t most_fragments(const settings& s) {
  const policy* const p = find_policy(s.comm.policy);
  const std::size_t tensors = tensors_of(s);
  return p != nullptr && p->in_turn ? std::min<std::size_t>(tensors, s.comm.local_steps) : tensors;
}

causeway::result<void> check_policy(const settings& s) {
  const std::size_t tensors = sets_by_itself(s.comm.policy, "comm.fragments") ? tensors_of(s) : 0;
  if (tensors > 0 && (s.comm.fragments == 0 || s.comm.fragments > tensors)) {
    return causeway::fail(causeway::errc::invalid_argument, "comm.fragments",
                          std::to_string(s.comm.fragments) + " of " + std::to_string(tensors) +
                              " tensors, which is what the model has; use 1 to " + std::to_string(most_fragments(s)) +
                              ", or leave it out");
  }
  return find_policy(s.comm.policy)->check(s);
}

bool steps_alone(const settings& s) {
  const policy* const p = find_policy(s.comm.policy);
  const bool may = is_swarm(s) || is_elastic_pipeline(s);
  return is_async_pipeline(s) || (may && (p == nullptr || !p->traits.exchanges_gradients)) ||
         (is_swarm(s) && p != nullptr && p->traits.gathers_samples);
}

bool joins_ends(const settings& s) { return is_elastic_pipeline(s) && s.parallel.recovery == "swapped_neighbours"; }

bool exchanges_gradients(const settings& s) {
  return (is_elastic_pipeline(s) || is_swarm(s)) && !steps_alone(s) && !traits_of(s).sums_gradients;
}

bool shares_no_table(const settings& s) {
  const bool flushes = is_elastic_pipeline(s) && !is_async_pipeline(s);
  const bool has_rows = flushes && find_policy(s.comm.policy) != nullptr && traits_of(s).rows_in_parts;
  const bool in_a_row = has_rows && !traits_of(s).trains_paths;  // a path's saved blocks are read without a tied table
  return (steps_alone(s) && !in_a_row) || (is_swarm(s) && exchanges_gradients(s));
}

std::uint64_t steps_of_round(const settings& s) {
  const policy* const p = find_policy(s.comm.policy);
  if (p != nullptr && p->traits.gathers_samples && (is_swarm(s) || is_elastic_pipeline(s))) {
    const auto batch = static_cast<std::uint64_t>(std::max<std::int64_t>(1, s.train.batch));  // of all peers
    return std::max<std::uint64_t>(1, (s.comm.batch_samples + batch - 1) / batch);
  }
  return p == nullptr || p->has_local_steps ? s.comm.local_steps : 1;
}

std::uint64_t most_steps_between(const settings& s) {
  const policy* const p = find_policy(s.comm.policy);
  const std::uint64_t later = sets_by_itself(s.comm.policy, "comm.overlap_steps") ? s.comm.overlap_steps : 0;
  const std::uint64_t rounds =
      p == nullptr ? 1 : std::max<std::uint64_t>(p->traits.rounds_at_hand * p->longest_round, p->record_rounds(s));
  return steps_of_round(s) * rounds + later;
}

std::uint64_t samples_at_hand(const settings& s) {
  const policy* const p = find_policy(s.comm.policy);
  if (p != nullptr && p->traits.gathers_samples) return s.comm.batch_samples;
  const std::uint64_t rounds =  // quick peers train on for two shares of a record
      p == nullptr ? 1 : std::max<std::uint64_t>(p->traits.rounds_at_hand * p->longest_round, 2 * p->record_rounds(s));
  if (p != nullptr && p->traits.rounds_by_clock) {  // nobody knows how many steps that will be: an eighth of the run's
    const std::uint64_t steps = std::max<std::uint64_t>(s.comm.fewest_steps, s.train.steps / 8);
    return std::max<std::uint64_t>(1, steps) * static_cast<std::uint64_t>(s.train.batch);
  }
  const std::uint64_t batches = p != nullptr && p->traits.divides_batches ? s.net.peers : 1;
  return steps_of_round(s) * rounds * batches * static_cast<std::uint64_t>(s.train.batch);
}

std::uint64_t optimizer_steps(const settings& s, std::uint64_t steps) {
  const policy* const p = find_policy(s.comm.policy);
  if (p == nullptr || !p->traits.gathers_samples || steps == 0) return steps;
  if (is_swarm(s) || is_elastic_pipeline(s)) return std::max<std::uint64_t>(1, steps / steps_of_round(s));
  const std::uint64_t samples = steps * static_cast<std::uint64_t>(s.train.batch) * s.net.peers;
  return std::max<std::uint64_t>(1, samples / std::max<std::uint64_t>(1, s.comm.batch_samples));
}

std::uint64_t rounds_of(const settings& s, std::uint64_t steps) {
  const policy* const p = find_policy(s.comm.policy);
  return p == nullptr || p->traits.gathers_samples ? optimizer_steps(s, steps) : std::min<std::uint64_t>(1, steps);
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
