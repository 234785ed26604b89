// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PARALLEL_SWARM_SWARM_SCHEDULER_HPP
#define CAUSEWAY_PARALLEL_SWARM_SWARM_SCHEDULER_HPP

// Brings all micro-batches of a turn through all stages of a swarm: gives each a path, sees who has contributed what, and
// finds others for what was lost. A state machine without network and clock: what peers say goes in, orders come out.
//
// It may be wrong about anybody without harm: a stage's peers check before they add up that they have every micro-batch
// exactly once (swarm_shares.hpp). What it decides is only how quickly they get there.
//
// Where the peers of a stage differ (local steps, a look-ahead), a micro-batch that loses a place begins anew there and in
// all stages above: what they had was made of the lost peer's values. Who has contributed it computes it for the others'
// sake. Stages below keep what they have.

#include <causeway/config/config.hpp>
#include <causeway/net/fabric.hpp>
#include <causeway/parallel/swarm/swarm_messages.hpp>
#include <causeway/stage/routing.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace parallel {

/// An order and whom it is for.
struct addressed_order {
  net::peer_id to = 0;
  swarm_wire::order what;
};

/// Thread safety: none. Memory: M · S peers for M micro-batches and S stages. Cost of an event: O(S), but for a peer that
/// goes or reports and for a stage's sum, O(M · S); what is under way is counted, not looked for.
template <stage::routing::Router Router>
class swarm_scheduler {
 public:
  /// `window`: micro-batches under way for each peer that serves. `steps_alone`: peers take local steps, and differ.
  swarm_scheduler(std::uint32_t stages, Router router, std::uint32_t window, bool steps_alone = false)
      : router_{std::move(router)}, known_{stages}, window_{window}, alone_{steps_alone}, summed_(stages, false) {}
  /// Before the first turn: peers of a stage compute at different values.
  void peers_differ() noexcept { differ_ = true; }

  // ---- who is there ----------------------------------------------------------------------------------------------------

  void serves(net::peer_id id, std::uint32_t stage) {
    const auto known = stage_of_.find(id);
    if (known != stage_of_.end() && known->second == stage) return;
    if (known != stage_of_.end()) gone(id);
    known_.announced(id, stage);
    const auto offended = offences_.find(id);
    if (offended != offences_.end() && swarm_wire::step_of(turn_) < offended->second.until) known_.ban(id);
    stage_of_[id] = stage;
    router_.begin(size_, known_);
  }

  /// It is out of reach, or serves no stage any more: what only it had is given to others.
  void gone(net::peer_id id) {
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

  /// What it sent for a micro-batch of this turn is of no use: until the next step nothing new goes there, and another of
  /// its stage, if there is one, computes that micro-batch. Whom it happens to again within 64 steps gets nothing for 2, 4
  /// ... 64 of them, unless its stage has nobody else.
  void failed(net::peer_id id, std::uint64_t turn, std::uint32_t m) {
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

  [[nodiscard]] const stage::routing::roster& known() const noexcept { return known_; }
  [[nodiscard]] stage::routing::roster& known() noexcept { return known_; }

  // ---- a turn ----------------------------------------------------------------------------------------------------------

  /// `from`: peers whose reports are waited for, because another coordinator had begun the turn; none at its beginning.
  void begin(std::uint32_t term, std::uint64_t turn, const stage::routing::step_size& size,
             std::set<net::peer_id> from = {}) {
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

  void take(net::peer_id from, const swarm_wire::report& r) {
    const auto stage = stage_of_.find(from);
    if (stage == stage_of_.end() || r.term != term_) return;
    if (r.turn < turn_ && counts_earlier_turns()) return;  // it will report again
    if (reporters_.erase(from) == 0) tell_again(from, stage->second);
    if (r.turn == turn_ && r.done.size() == batches_.size()) take_contents(from, stage->second, r);
    pump();
  }

  void take(net::peer_id from, const swarm_wire::contributed& c) {
    const auto stage = stage_of_.find(from);
    if (stage == stage_of_.end() || c.turn != turn_ || c.micro_batch >= batches_.size()) return;
    known_.measured(from, c.seconds);
    note(from, stage->second, c.micro_batch, c.loss);
    pump();
  }

  /// Whether a living peer of the stage has the sum of all its micro-batches: then nothing can be lost there any more.
  void summed(std::uint32_t stage, bool has) {
    if (summed_[stage] == has) return;
    summed_[stage] = has;
    for (std::uint32_t m = 0; m < batches_.size(); ++m) {
      recount(m, [&] { count_missing(m); });
      if (!has && batches_[m].started && batches_[m].holders[stage] == 0) stale_.insert(m);
    }
    pump();
  }

  // ---- what comes out --------------------------------------------------------------------------------------------------

  [[nodiscard]] std::vector<addressed_order> take_orders() { return std::exchange(orders_, {}); }

  /// Every micro-batch is in the gradient of a living peer of every stage; in an evaluation, its loss is known.
  [[nodiscard]] bool complete() const { return reporters_.empty() && finished_ == batches_.size(); }
  /// Summed over all micro-batches whose loss is known, in their order.
  [[nodiscard]] double loss() const {
    double sum = 0;
    for (const batch& b : batches_) sum += b.loss;
    return sum;
  }
  /// Stages that nobody serves.
  [[nodiscard]] std::vector<std::uint32_t> unserved() const {
    std::vector<std::uint32_t> all;
    for (std::uint32_t s = 0; s < size_.stages; ++s) {
      if (known_.at(s).empty()) all.push_back(s);
    }
    return all;
  }
  [[nodiscard]] std::uint32_t under_way() const noexcept { return under_way_; }
  [[nodiscard]] std::uint32_t finished() const noexcept { return finished_; }
  /// Micro-batches that were routed again after a peer had gone.
  [[nodiscard]] std::uint64_t rerouted() const noexcept { return rerouted_; }

 private:
  struct batch {
    explicit batch(std::uint32_t stages) : path(stages, 0), holders(stages, 0), passes(stages, 0) {}
    stage::routing::path path;
    std::vector<net::peer_id> holders;  ///< by stage: who has contributed it; 0: nobody who lives
    std::vector<std::uint64_t> passes;  ///< by stage
    double loss = 0;
    std::uint32_t missing = 0;  ///< stages that do not have it
    bool started = false;
    bool known = false;  ///< which tensors are where: this coordinator has started it
  };

  struct offence {
    std::uint32_t count = 0;
    std::uint64_t until = 0;  ///< the first step in which it may get something again
  };

  // What ends with an exchange is of all local steps of the round: peers have most of it when it begins.
  [[nodiscard]] bool counts_earlier_turns() const {
    return alone_ && swarm_wire::trains(turn_) && !swarm_wire::is_local(turn_);
  }

  [[nodiscard]] bool covered(std::uint32_t m, const batch& b, std::uint32_t s) const {
    return b.holders[s] != 0 || summed_[s] || !router_.runs(size_, s, m);
  }
  [[nodiscard]] static bool covered(const batch& b) noexcept { return b.missing == 0; }

  // What ends a turn is counted as it changes.
  void count_missing(std::uint32_t m) {
    batch& b = batches_[m];
    if (!swarm_wire::trains(turn_)) {
      b.missing = b.holders.back() != 0 ? 0 : 1;
      return;
    }
    b.missing = 0;
    for (std::uint32_t s = 0; s < size_.stages; ++s) b.missing += covered(m, b, s) ? 0 : 1;
  }
  template <class Change>
  void recount(std::uint32_t m, Change&& change) {
    const batch& b = batches_[m];
    const auto count = [&](std::uint32_t by) {
      finished_ += covered(b) ? by : 0;
      under_way_ += b.started && !covered(b) ? by : 0;
    };
    count(UINT32_MAX);  // minus one
    change();
    count(1);
  }
  void hold(std::uint32_t m, std::uint32_t stage, net::peer_id who) {
    recount(m, [&] {
      batches_[m].holders[stage] = who;
      count_missing(m);
    });
  }
  void set_started(std::uint32_t m) {
    recount(m, [&] { batches_[m].started = true; });
  }

  void note(net::peer_id from, std::uint32_t stage, std::uint32_t m, double loss) {
    batch& b = batches_[m];
    if (b.holders[stage] == 0) hold(m, stage, from);
    if (stage + 1 == size_.stages) b.loss = loss;
  }

  void take_contents(net::peer_id from, std::uint32_t stage, const swarm_wire::report& r) {
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

  // A micro-batch that an earlier coordinator had started goes on where it is.
  void adopt(std::uint32_t m, std::uint32_t stage, net::peer_id at) {
    batch& b = batches_[m];
    if (b.started) return;
    b.path[stage] = at;
    adopted_.insert(m);
  }

  // Mends first, then starts as many as may be under way.
  void pump() {
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

  bool start(std::uint32_t m) {
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

  // From that stage up. The version of the order that says so names the pass.
  void begin_anew(batch& b, std::uint32_t from) {
    if (!differ_) return;
    std::fill(b.passes.begin() + from, b.passes.end(), std::uint64_t{term_} << 32U | (versions_ + 1));
    b.known = true;
  }

  // Lost places of a path are given to others, who get what the neighbours kept. Where nobody is left to take one, it
  // waits for who comes.
  void mend(std::uint32_t m) {
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

  // Stages below have what they need, but for the gradient where they have not contributed yet.
  void compute_anew(batch& b, std::uint32_t from, std::vector<swarm_wire::stage_need>& needs) {
    begin_anew(b, from);
    for (std::uint32_t s = 0; s < size_.stages; ++s) {
      if (s >= from) {
        needs[s] = swarm_wire::stage_need::again;
      } else if (needs[s] == swarm_wire::stage_need::again) {
        needs[s] = swarm_wire::stage_need::usual;
      }
    }
  }

  // Whether every stage that the micro-batch passes has a peer to choose. One that failed is better than none.
  bool all_served(std::uint32_t m) {
    for (std::uint32_t s = 0; s < size_.stages; ++s) {
      if (!router_.runs(size_, s, m)) continue;
      if (known_.at(s).empty()) return false;
      if (!known_.usable(s).empty()) continue;
      const std::vector<stage::routing::server> banned{known_.at(s).begin(), known_.at(s).end()};
      for (const auto& p : banned) known_.announced(p.id, s);
    }
    return true;
  }

  void tell(std::uint32_t m, const batch& b, const std::vector<swarm_wire::stage_need>& needs) {
    const swarm_wire::order o{turn_, m, std::uint64_t{term_} << 32U | ++versions_, b.path, needs, b.passes};
    for (const net::peer_id p : b.path) {
      if (p != 0) orders_.push_back({p, o});
    }
  }

  // It may not have heard of everything: orders that it knows do no harm.
  void tell_again(net::peer_id to, std::uint32_t stage) {
    for (const batch& b : batches_) {
      const auto m = static_cast<std::uint32_t>(&b - batches_.data());
      if (!b.started || b.path[stage] != to || covered(m, b, stage)) continue;
      orders_.push_back({to,
                         {turn_, m, std::uint64_t{term_} << 32U | ++versions_, b.path,
                          std::vector(size_.stages, swarm_wire::stage_need::usual), b.passes}});
    }
  }

  Router router_;
  stage::routing::roster known_;
  std::uint32_t window_;
  bool alone_, differ_ = alone_;
  stage::routing::step_size size_;
  std::uint32_t term_ = 0;
  std::uint64_t turn_ = 0;
  std::uint32_t versions_ = 0;
  std::uint32_t next_ = 0;
  std::uint32_t under_way_ = 0, finished_ = 0;  // micro-batches
  std::uint64_t rerouted_ = 0;
  std::vector<batch> batches_;
  std::vector<bool> summed_;
  std::map<net::peer_id, std::uint32_t> stage_of_;
  std::map<net::peer_id, offence> offences_;  // also of those who are gone: coming back is no pardon
  std::set<net::peer_id> reporters_;
  std::set<std::uint32_t> stale_, adopted_;
  std::vector<addressed_order> orders_;
};

}}}  // namespace causeway::CAUSEWAY_ABI::parallel

#endif  // CAUSEWAY_PARALLEL_SWARM_SWARM_SCHEDULER_HPP
