// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PARALLEL_SWARM_MICRO_BATCH_STATE_HPP
#define CAUSEWAY_PARALLEL_SWARM_MICRO_BATCH_STATE_HPP

// One peer's share of a turn in a swarm: which micro-batches it has been given, what it has of them, what it computes next
// and where the result goes. A state machine without network and clock: orders and tensors go in, tasks and shipments come
// out. Everything may come twice: what is there already is passed over, so nothing is computed into the gradient twice.
//
// Where the peers of a stage hold different values, a micro-batch that begins anew somewhere begins anew in all stages
// above too: orders and tensors carry the pass that they belong to, and no gradient is made of two passes' values.

#include <causeway/config/config.hpp>
#include <causeway/net/fabric.hpp>
#include <causeway/parallel/swarm/swarm_messages.hpp>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace parallel {

/// A boundary tensor as it travels, encoded. Shared, since sends may outlive the step.
using boundary_bytes = std::shared_ptr<const std::vector<std::byte>>;

/// To be computed next.
struct swarm_task {
  std::uint32_t micro_batch = 0;
  bool backward = false;
  boundary_bytes input;  ///< from the stage before, or the gradient from the one behind; null at the model's ends
  std::uint64_t pass = 0;
};

/// A tensor to be sent.
struct swarm_shipment {
  net::peer_id to = 0;
  std::uint32_t micro_batch = 0;
  bool backward = false;
  boundary_bytes bytes;
  std::uint64_t pass = 0;  ///< of the upper of the two stages
};

/// Outputs and input gradients are kept until the turn ends: a peer that stands in for a lost neighbour needs them.
class micro_batch_state {
 public:
  CAUSEWAY_DECL micro_batch_state(net::peer_id self, std::uint32_t stage, std::uint32_t stages);

  /// `counted`: what this peer has contributed before; of the same size, or empty for nothing.
  CAUSEWAY_DECL void begin(std::uint64_t turn, std::uint32_t micro_batches, swarm_wire::batch_set counted = {});

  // ---- events ----------------------------------------------------------------------------------------------------------

  /// A path, or a later version of it. What is kept here goes to neighbours that stand in for others.
  CAUSEWAY_DECL void take(const swarm_wire::order& o);

  /// A tensor from a neighbouring stage; it may come before the order. An input is of this stage's pass; a gradient, of the
  /// pass of the stage above: that stage may have begun anew from the output that is kept here, never the other way round.
  CAUSEWAY_DECL void arrive(std::uint32_t micro_batch, bool backward, boundary_bytes bytes, std::uint64_t pass = 0);

  /// What had arrived is of no use. Gives whom it is to come from; it may come again.
  CAUSEWAY_DECL net::peer_id refuse(std::uint32_t micro_batch, bool backward);

  /// Whether a tensor for this micro-batch is to come from that peer, as far as the orders say.
  CAUSEWAY_DECL [[nodiscard]] bool expects(net::peer_id peer, std::uint32_t micro_batch, bool backward) const;

  /// A connection to this peer was made again: what it may have missed is sent once more.
  CAUSEWAY_DECL void connected(net::peer_id peer);

  /// Another coordinator: what it does not hear about in a report does not happen.
  CAUSEWAY_DECL void drop_orders();

  /// The gradient was cleared.
  CAUSEWAY_DECL void drop_contributions();
  /// The coordinator took this peer for lost, and has given all of it to others.
  CAUSEWAY_DECL void forget();
  /// What has been contributed since the turn began is in this peer's parameters now; or, with false, what was counted
  /// before is not in them any more.
  CAUSEWAY_DECL void set_applied(bool applied);

  // ---- work ------------------------------------------------------------------------------------------------------------

  /// Gradients first: they let go of memory. Then in the order of arrival.
  CAUSEWAY_DECL [[nodiscard]] std::optional<swarm_task> next() const;

  /// The forward of a task is computed; `output`: null on the last stage. Of no use if the micro-batch has begun anew.
  CAUSEWAY_DECL void forwarded(std::uint32_t micro_batch, boundary_bytes output, std::uint64_t pass = 0);

  /// The gradient of the micro-batch is in this peer's, whichever pass it is of; `d_input`: null on the first stage, and in
  /// an evaluation.
  CAUSEWAY_DECL void contributed(std::uint32_t micro_batch, double loss, boundary_bytes d_input, std::uint64_t pass = 0);

  CAUSEWAY_DECL [[nodiscard]] std::vector<swarm_shipment> take_shipments();

  // ---- to look at ------------------------------------------------------------------------------------------------------

  [[nodiscard]] std::uint64_t turn() const noexcept { return turn_; }
  [[nodiscard]] std::uint32_t stage() const noexcept { return stage_; }
  [[nodiscard]] const swarm_wire::batch_set& done() const noexcept { return done_; }
  /// Whether its gradient is to be added: another pass of what is there already is for the neighbours' sake.
  [[nodiscard]] bool adds(std::uint32_t micro_batch) const noexcept { return !done_.has(micro_batch); }
  /// Micro-batches in the gradient: contributed since the turn began.
  [[nodiscard]] std::uint32_t pending() const noexcept { return done_.count() - counted_.count(); }
  /// Micro-batches that wait for this peer.
  CAUSEWAY_DECL [[nodiscard]] std::uint32_t queued() const;
  CAUSEWAY_DECL [[nodiscard]] swarm_wire::report summary(std::uint32_t term) const;
  /// What the gradients of micro-batches computed forward are waited for from.
  CAUSEWAY_DECL [[nodiscard]] std::vector<std::pair<std::uint32_t, net::peer_id>> waiting_for() const;

 private:
  struct received {
    boundary_bytes bytes;
    std::uint64_t pass = 0;
  };
  struct slot {
    swarm_wire::order path;
    bool ordered = false;
    bool forwarded = false;  // and its activations are there
    bool finished = false;   // computed back, or forward in an evaluation
    received input, d_output;
    boundary_bytes output, d_input;  // kept
    double loss = 0;
    std::uint64_t place = 0;  // in the queue
    std::uint64_t pass = 0;

    // An input of the new pass may have come before the order.
    CAUSEWAY_DECL void begin_anew(std::uint64_t from);
  };

  CAUSEWAY_DECL slot& at(std::uint32_t micro_batch);

  CAUSEWAY_DECL [[nodiscard]] bool ready_forth(const slot& s) const;
  [[nodiscard]] bool ready_back(const slot& s) const { return s.forwarded && (stage_ + 1 == stages_ || s.d_output.bytes); }

  // Of the next stage that the path passes, or of the one before. 0: none.
  CAUSEWAY_DECL [[nodiscard]] net::peer_id neighbour(const slot& s, bool above) const;
  CAUSEWAY_DECL [[nodiscard]] std::size_t neighbouring_stage(const slot& s, bool above) const;

  CAUSEWAY_DECL [[nodiscard]] bool needs_again(const slot& s, bool above) const;

  CAUSEWAY_DECL void ship(std::uint32_t micro_batch, const slot& s, bool backward);

  net::peer_id self_;
  std::uint32_t stage_;
  std::uint32_t stages_;
  std::uint64_t turn_ = 0;
  std::uint64_t next_place_ = 0;
  swarm_wire::batch_set counted_;  // before the turn
  swarm_wire::batch_set done_;
  std::map<std::uint32_t, slot> slots_;
  std::vector<swarm_shipment> shipments_;
};

}}}  // namespace causeway::CAUSEWAY_ABI::parallel

#ifndef CAUSEWAY_COMPILED
#include <causeway/parallel/swarm/impl/micro_batch_state.ipp>
#endif

#endif  // CAUSEWAY_PARALLEL_SWARM_MICRO_BATCH_STATE_HPP
