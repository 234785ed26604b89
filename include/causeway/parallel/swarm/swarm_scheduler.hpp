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
#include <causeway/stage/any_router.hpp>
#include <causeway/stage/routing.hpp>

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
class swarm_scheduler {
 public:
  /// `window`: micro-batches under way for each peer that serves. `steps_alone`: peers take local steps, and differ.
  swarm_scheduler(std::uint32_t stages, stage::routing::any_router router, std::uint32_t window, bool steps_alone = false)
      : router_{std::move(router)}, known_{stages}, window_{window}, alone_{steps_alone}, summed_(stages, false) {}
  /// Before the first turn: peers of a stage compute at different values.
  void peers_differ() noexcept { differ_ = true; }

  // ---- who is there ----------------------------------------------------------------------------------------------------

  CAUSEWAY_DECL void serves(net::peer_id id, std::uint32_t stage);

  /// It is out of reach, or serves no stage any more: what only it had is given to others.
  CAUSEWAY_DECL void gone(net::peer_id id);

  /// What it sent for a micro-batch of this turn is of no use: until the next step nothing new goes there, and another of
  /// its stage, if there is one, computes that micro-batch. Whom it happens to again within 64 steps gets nothing for 2, 4
  /// ... 64 of them, unless its stage has nobody else.
  CAUSEWAY_DECL void failed(net::peer_id id, std::uint64_t turn, std::uint32_t m);
  [[nodiscard]] const stage::routing::roster& known() const noexcept { return known_; }
  [[nodiscard]] stage::routing::roster& known() noexcept { return known_; }

  // ---- a turn ----------------------------------------------------------------------------------------------------------

  /// `from`: peers whose reports are waited for, because another coordinator had begun the turn; none at its beginning.
  CAUSEWAY_DECL void begin(std::uint32_t term, std::uint64_t turn, const stage::routing::step_size& size,
                           std::set<net::peer_id> from = {});
  CAUSEWAY_DECL void take(net::peer_id from, const swarm_wire::report& r);
  CAUSEWAY_DECL void take(net::peer_id from, const swarm_wire::contributed& c);

  /// Whether a living peer of the stage has the sum of all its micro-batches: then nothing can be lost there any more.
  CAUSEWAY_DECL void summed(std::uint32_t stage, bool has);

  // ---- what comes out --------------------------------------------------------------------------------------------------

  [[nodiscard]] std::vector<addressed_order> take_orders() { return std::exchange(orders_, {}); }

  /// Every micro-batch is in the gradient of a living peer of every stage; in an evaluation, its loss is known.
  [[nodiscard]] bool complete() const { return reporters_.empty() && finished_ == batches_.size(); }
  /// Summed over all micro-batches whose loss is known, in their order.
  CAUSEWAY_DECL [[nodiscard]] double loss() const;
  /// Stages that nobody serves.
  CAUSEWAY_DECL [[nodiscard]] std::vector<std::uint32_t> unserved() const;
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
  CAUSEWAY_DECL [[nodiscard]] bool counts_earlier_turns() const;
  CAUSEWAY_DECL [[nodiscard]] bool covered(std::uint32_t m, const batch& b, std::uint32_t s) const;
  [[nodiscard]] static bool covered(const batch& b) noexcept { return b.missing == 0; }

  // What ends a turn is counted as it changes.
  CAUSEWAY_DECL void count_missing(std::uint32_t m);
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
  CAUSEWAY_DECL void hold(std::uint32_t m, std::uint32_t stage, net::peer_id who);
  CAUSEWAY_DECL void set_started(std::uint32_t m);
  CAUSEWAY_DECL void note(net::peer_id from, std::uint32_t stage, std::uint32_t m, double loss);

  CAUSEWAY_DECL void take_contents(net::peer_id from, std::uint32_t stage, const swarm_wire::report& r);

  // A micro-batch that an earlier coordinator had started goes on where it is.
  CAUSEWAY_DECL void adopt(std::uint32_t m, std::uint32_t stage, net::peer_id at);

  // Mends first, then starts as many as may be under way.
  CAUSEWAY_DECL void pump();
  CAUSEWAY_DECL bool start(std::uint32_t m);

  // From that stage up. The version of the order that says so names the pass.
  CAUSEWAY_DECL void begin_anew(batch& b, std::uint32_t from);

  // Lost places of a path are given to others, who get what the neighbours kept. Where nobody is left to take one, it
  // waits for who comes.
  CAUSEWAY_DECL void mend(std::uint32_t m);

  // Stages below have what they need, but for the gradient where they have not contributed yet.
  CAUSEWAY_DECL void compute_anew(batch& b, std::uint32_t from, std::vector<swarm_wire::stage_need>& needs);

  // Whether every stage that the micro-batch passes has a peer to choose. One that failed is better than none.
  CAUSEWAY_DECL bool all_served(std::uint32_t m);
  CAUSEWAY_DECL void tell(std::uint32_t m, const batch& b, const std::vector<swarm_wire::stage_need>& needs);

  // It may not have heard of everything: orders that it knows do no harm.
  CAUSEWAY_DECL void tell_again(net::peer_id to, std::uint32_t stage);

  stage::routing::any_router router_;
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

#ifndef CAUSEWAY_COMPILED
#include <causeway/parallel/swarm/impl/swarm_scheduler.ipp>
#endif

#endif  // CAUSEWAY_PARALLEL_SWARM_SWARM_SCHEDULER_HPP
