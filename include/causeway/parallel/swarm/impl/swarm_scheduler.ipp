// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PARALLEL_SWARM_IMPL_SWARM_SCHEDULER_IPP
#define CAUSEWAY_PARALLEL_SWARM_IMPL_SWARM_SCHEDULER_IPP

#include <causeway/parallel/swarm/swarm_scheduler.hpp>

#include <algorithm>
#include <cstddef>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace parallel {

CAUSEWAY_DECL void swarm_scheduler::serves(net::peer_id id, std::uint32_t stage) {
  const auto known = stage_of_.find(id);
  if (known != stage_of_.end() && known->second == stage) return;
  if (known != stage_of_.end()) gone(id);
  known_.announced(id, stage);
  const auto offended = offences_.find(id);
  if (offended != offences_.end() && swarm_wire::step_of(turn_) < offended->second.until) known_.ban(id);
  stage_of_[id] = stage;
  router_.begin(size_, known_);
}

CAUSEWAY_DECL void swarm_scheduler::gone(net::peer_id id) {
  const auto known = stage_of_.find(id);
  if (known == stage_of_.end()) return;
  const std::uint32_t stage = known->second;
  stage_of_.erase(known);
  known_.gone(id);
  reporters_.erase(id);
  for (std::uint32_t m = 0; m < batches_.size(); ++m) {
    batch& b = batches_[m];
    if (b.holders[stage] == id) hold(m, stage, 0);
    if (!b.started || std::find(b.path.begin(), b.path.end(), id) == b.path.end()) continue;
    stale_.insert(m);
    if (differ_) b.path[stage] = stage::routing::nobody;  // also if it is back at once: it has forgotten
  }
  pump();
}

CAUSEWAY_DECL void swarm_scheduler::failed(net::peer_id id, std::uint64_t turn, std::uint32_t m) {
  const auto stage = stage_of_.find(id);
  if (stage == stage_of_.end() || turn != turn_ || m >= batches_.size()) return;
  known_.ban(id);
  offence& o = offences_[id];
  o.until = swarm_wire::step_of(turn_) + (std::uint64_t{1} << std::min(o.count++, 6U));
  batch& b = batches_[m];
  if (!b.started || b.path[stage->second] != id || known_.usable(stage->second).empty()) return;
  b.path[stage->second] = stage::routing::nobody;
  if (b.holders[stage->second] == id) hold(m, stage->second, 0);
  stale_.insert(m);
  pump();
}

CAUSEWAY_DECL void swarm_scheduler::begin(std::uint32_t term, std::uint64_t turn, const stage::routing::step_size& size,
                                          std::set<net::peer_id> from) {
  term_ = term;
  turn_ = turn;
  size_ = size;
  batches_.assign(size.micro_batches, batch{size.stages});
  std::fill(summed_.begin(), summed_.end(), false);
  under_way_ = finished_ = 0;
  for (std::uint32_t m = 0; m < batches_.size(); ++m) count_missing(m);
  stale_.clear();
  adopted_.clear();
  next_ = 0;
  reporters_ = std::move(from);
  const std::uint64_t step = swarm_wire::step_of(turn);
  std::erase_if(offences_, [&](const auto& o) { return step > o.second.until + 64; });
  for (const auto& [id, stage] : stage_of_) {
    const auto known = offences_.find(id);
    if (known == offences_.end() || step >= known->second.until) known_.announced(id, stage);
  }
  router_.begin(size_, known_);
  pump();
}

CAUSEWAY_DECL void swarm_scheduler::take(net::peer_id from, const swarm_wire::report& r) {
  const auto stage = stage_of_.find(from);
  if (stage == stage_of_.end() || r.term != term_) return;
  if (r.turn < turn_ && counts_earlier_turns()) return;  // it will report again
  if (reporters_.erase(from) == 0) tell_again(from, stage->second);
  if (r.turn == turn_ && r.done.size() == batches_.size()) take_contents(from, stage->second, r);
  pump();
}

CAUSEWAY_DECL void swarm_scheduler::take(net::peer_id from, const swarm_wire::contributed& c) {
  const auto stage = stage_of_.find(from);
  if (stage == stage_of_.end() || c.turn != turn_ || c.micro_batch >= batches_.size()) return;
  known_.measured(from, c.seconds);
  note(from, stage->second, c.micro_batch, c.loss);
  pump();
}

CAUSEWAY_DECL void swarm_scheduler::summed(std::uint32_t stage, bool has) {
  if (summed_[stage] == has) return;
  summed_[stage] = has;
  for (std::uint32_t m = 0; m < batches_.size(); ++m) {
    recount(m, [&] { count_missing(m); });
    if (!has && batches_[m].started && batches_[m].holders[stage] == 0) stale_.insert(m);
  }
  pump();
}

CAUSEWAY_DECL double swarm_scheduler::loss() const {
  double sum = 0;
  for (const batch& b : batches_) sum += b.loss;
  return sum;
}

CAUSEWAY_DECL std::vector<std::uint32_t> swarm_scheduler::unserved() const {
  std::vector<std::uint32_t> all;
  for (std::uint32_t s = 0; s < size_.stages; ++s) {
    if (known_.at(s).empty()) all.push_back(s);
  }
  return all;
}

CAUSEWAY_DECL bool swarm_scheduler::counts_earlier_turns() const {
  return alone_ && swarm_wire::trains(turn_) && !swarm_wire::is_local(turn_);
}

CAUSEWAY_DECL bool swarm_scheduler::covered(std::uint32_t m, const batch& b, std::uint32_t s) const {
  return b.holders[s] != 0 || summed_[s] || !router_.runs(size_, s, m);
}

CAUSEWAY_DECL void swarm_scheduler::count_missing(std::uint32_t m) {
  batch& b = batches_[m];
  if (!swarm_wire::trains(turn_)) {
    b.missing = b.holders.back() != 0 ? 0 : 1;
    return;
  }
  b.missing = 0;
  for (std::uint32_t s = 0; s < size_.stages; ++s) b.missing += covered(m, b, s) ? 0 : 1;
}

CAUSEWAY_DECL void swarm_scheduler::hold(std::uint32_t m, std::uint32_t stage, net::peer_id who) {
  recount(m, [&] {
    batches_[m].holders[stage] = who;
    count_missing(m);
  });
}

CAUSEWAY_DECL void swarm_scheduler::set_started(std::uint32_t m) {
  recount(m, [&] { batches_[m].started = true; });
}

CAUSEWAY_DECL void swarm_scheduler::note(net::peer_id from, std::uint32_t stage, std::uint32_t m, double loss) {
  batch& b = batches_[m];
  if (b.holders[stage] == 0) hold(m, stage, from);
  if (stage + 1 == size_.stages) b.loss = loss;
}

CAUSEWAY_DECL void swarm_scheduler::take_contents(net::peer_id from, std::uint32_t stage, const swarm_wire::report& r) {
  std::size_t losses = 0;
  for (std::uint32_t m = 0; m < batches_.size(); ++m) {
    batch& b = batches_[m];
    if (r.done.has(m)) {
      note(from, stage, m, losses < r.losses.size() ? r.losses[losses++] : 0);
      adopt(m, stage, from);
    } else if (b.holders[stage] == from) {  // it had to drop it
      hold(m, stage, 0);
      if (differ_) b.path[stage] = stage::routing::nobody;
      stale_.insert(m);
    } else if (r.begun.has(m) && b.holders[stage] == 0) {
      adopt(m, stage, from);
    }
  }
}

CAUSEWAY_DECL void swarm_scheduler::adopt(std::uint32_t m, std::uint32_t stage, net::peer_id at) {
  batch& b = batches_[m];
  if (b.started) return;
  b.path[stage] = at;
  adopted_.insert(m);
}

CAUSEWAY_DECL void swarm_scheduler::pump() {
  if (!reporters_.empty()) return;
  for (const std::uint32_t m : std::exchange(adopted_, {})) {
    if (!batches_[m].started) stale_.insert(m);
    set_started(m);
  }
  for (const std::uint32_t m : std::exchange(stale_, {})) mend(m);
  std::uint32_t room = window_ * static_cast<std::uint32_t>(stage_of_.size());
  const std::uint32_t busy = under_way();
  room = room > busy ? room - busy : 0;
  for (; room > 0 && next_ < batches_.size(); ++next_) {
    if (batches_[next_].started) continue;
    if (!start(next_)) return;
    --room;
  }
}

CAUSEWAY_DECL bool swarm_scheduler::start(std::uint32_t m) {
  if (!all_served(m)) return false;
  batch& b = batches_[m];
  for (std::uint32_t s = 0; s < size_.stages; ++s) {
    b.path[s] = router_.runs(size_, s, m) ? router_.choose(known_, s, m) : 0;
  }
  set_started(m);
  begin_anew(b, 0);
  tell(m, b, std::vector(size_.stages, swarm_wire::stage_need::usual));
  return true;
}

CAUSEWAY_DECL void swarm_scheduler::begin_anew(batch& b, std::uint32_t from) {
  if (!differ_) return;
  std::fill(b.passes.begin() + from, b.passes.end(), std::uint64_t{term_} << 32U | (versions_ + 1));
  b.known = true;
}

CAUSEWAY_DECL void swarm_scheduler::mend(std::uint32_t m) {
  batch& b = batches_[m];
  if (covered(b)) return;
  if (!all_served(m)) {
    stale_.insert(m);
    return;
  }
  std::vector needs(size_.stages, swarm_wire::stage_need::usual);
  std::uint32_t changed = size_.stages;  // the lowest place
  for (std::uint32_t s = 0; s < size_.stages; ++s) {
    if (!router_.runs(size_, s, m)) continue;
    const net::peer_id before = b.path[s];
    const auto at = stage_of_.find(b.holders[s] != 0 ? b.holders[s] : b.path[s]);
    if (at != stage_of_.end() && at->second == s) {
      b.path[s] = at->first;
    } else {
      b.path[s] = router_.choose(known_, s, m);
    }
    if (b.path[s] != before) changed = std::min(changed, s);
    needs[s] = b.holders[s] == b.path[s] ? swarm_wire::stage_need::finished : swarm_wire::stage_need::again;
  }
  if (differ_) compute_anew(b, b.known ? changed : 0, needs);
  ++rerouted_;
  tell(m, b, needs);
}

CAUSEWAY_DECL void swarm_scheduler::compute_anew(batch& b, std::uint32_t from, std::vector<swarm_wire::stage_need>& needs) {
  begin_anew(b, from);
  for (std::uint32_t s = 0; s < size_.stages; ++s) {
    if (s >= from) {
      needs[s] = swarm_wire::stage_need::again;
    } else if (needs[s] == swarm_wire::stage_need::again) {
      needs[s] = swarm_wire::stage_need::usual;
    }
  }
}

CAUSEWAY_DECL bool swarm_scheduler::all_served(std::uint32_t m) {
  for (std::uint32_t s = 0; s < size_.stages; ++s) {
    if (!router_.runs(size_, s, m)) continue;
    if (known_.at(s).empty()) return false;
    if (!known_.usable(s).empty()) continue;
    const std::vector<stage::routing::server> banned{known_.at(s).begin(), known_.at(s).end()};
    for (const auto& p : banned) known_.announced(p.id, s);
  }
  return true;
}

CAUSEWAY_DECL void swarm_scheduler::tell(std::uint32_t m, const batch& b,
                                         const std::vector<swarm_wire::stage_need>& needs) {
  const swarm_wire::order o{turn_, m, std::uint64_t{term_} << 32U | ++versions_, b.path, needs, b.passes};
  for (const net::peer_id p : b.path) {
    if (p != 0) orders_.push_back({p, o});
  }
}

CAUSEWAY_DECL void swarm_scheduler::tell_again(net::peer_id to, std::uint32_t stage) {
  for (const batch& b : batches_) {
    const auto m = static_cast<std::uint32_t>(&b - batches_.data());
    if (!b.started || b.path[stage] != to || covered(m, b, stage)) continue;
    orders_.push_back({to,
                       {turn_, m, std::uint64_t{term_} << 32U | ++versions_, b.path,
                        std::vector(size_.stages, swarm_wire::stage_need::usual), b.passes}});
  }
}

}}}  // namespace causeway::CAUSEWAY_ABI::parallel

#endif  // CAUSEWAY_PARALLEL_SWARM_IMPL_SWARM_SCHEDULER_IPP
