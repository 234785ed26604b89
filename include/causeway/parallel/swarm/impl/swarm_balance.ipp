// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PARALLEL_SWARM_IMPL_SWARM_BALANCE_IPP
#define CAUSEWAY_PARALLEL_SWARM_IMPL_SWARM_BALANCE_IPP

#include <causeway/parallel/swarm/swarm_balance.hpp>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace parallel {

/// Waiting micro-batches per peer of the stage; 0 where nobody serves it.
CAUSEWAY_DECL double load_of(const std::vector<balanced_peer>& stage) {
  double sum = 0;
  for (const balanced_peer& p : stage) sum += p.queued;
  return stage.empty() ? 0 : sum / static_cast<double>(stage.size());
}

CAUSEWAY_DECL std::uint32_t most_loaded(std::span<const std::vector<balanced_peer>> stages) {
  std::uint32_t most = 0;
  for (std::uint32_t s = 0; s < stages.size(); ++s) {
    if (stages[s].empty()) return s;
    if (load_of(stages[s]) > load_of(stages[most])) most = s;
  }
  return most;
}

CAUSEWAY_DECL std::optional<swarm_move> choose_move(std::span<const std::vector<balanced_peer>> stages, double hysteresis) {
  const std::uint32_t most = most_loaded(stages);
  std::optional<std::uint32_t> least;
  for (std::uint32_t s = 0; s < stages.size(); ++s) {
    if (s == most || stages[s].size() < 2) continue;
    if (!least || load_of(stages[s]) < load_of(stages[*least])) least = s;
  }
  if (!least || (!stages[most].empty() && load_of(stages[most]) < load_of(stages[*least]) + hysteresis))
    return std::nullopt;
  const balanced_peer* who = nullptr;
  for (const balanced_peer& p : stages[*least]) {
    if (p.may_move && (who == nullptr || p.seconds >= who->seconds)) who = &p;
  }
  if (who == nullptr) return std::nullopt;
  return swarm_move{who->id, most, false};
}

CAUSEWAY_DECL void queue_meter::begin_turn() {
  before_ = mean_of_turn();
  sum_ = begun_ = 0;
}

CAUSEWAY_DECL void queue_meter::began(std::size_t waiting) {
  sum_ += static_cast<double>(waiting);
  ++begun_;
}

CAUSEWAY_DECL void queue_watch::saw(net::peer_id id, double queued) { sums_[id] += queued; }

CAUSEWAY_DECL double queue_watch::mean(net::peer_id id) const {
  const auto at = sums_.find(id);
  return at == sums_.end() || looks_ == 0 ? 0 : at->second / looks_;
}

CAUSEWAY_DECL bool queue_watch::due(time_point now, duration every) {
  if (at_ == time_point{}) at_ = now + every;
  if (every == duration{0} || now < at_) return false;
  at_ = now + every;
  return true;
}

CAUSEWAY_DECL void queue_watch::changed(time_point now, duration every) {
  clear();
  if (at_ != time_point{}) at_ = std::max(at_, now + every / 2);
}

CAUSEWAY_DECL void queue_watch::clear() {
  sums_.clear();
  looks_ = 0;
}

CAUSEWAY_DECL std::optional<swarm_move> stage_balance::look(time_point now, std::span<const serving_peer> others,
                                                            const serving_peer& self) {
  std::map<net::peer_id, std::uint32_t> serving;
  for (const serving_peer& p : others) serving[p.id] = p.stage;
  if (std::exchange(served_, serving) != serving) queues_.changed(now, every_);
  for (const serving_peer& p : others) queues_.saw(p.id, p.queued);
  queues_.saw(self.id, self.queued);
  queues_.looked();
  if (!queues_.due(now, every_)) return std::nullopt;
  const auto moving = serving.find(moving_.who);
  if (moving != serving.end() && moving->second != moving_.to) return swarm_move{moving_.who, moving_.to, true};
  std::vector<std::vector<balanced_peer>> stages(stages_);
  for (const serving_peer& p : others) stages[p.stage].push_back({p.id, p.seconds, queues_.mean(p.id), true});
  stages[self.stage].push_back({self.id, self.seconds, queues_.mean(self.id), false});
  queues_.clear();
  const auto move = choose_move(stages, hysteresis_);
  if (move) moving_ = *move;
  return move;
}

}}}  // namespace causeway::CAUSEWAY_ABI::parallel

#endif  // CAUSEWAY_PARALLEL_SWARM_IMPL_SWARM_BALANCE_IPP
