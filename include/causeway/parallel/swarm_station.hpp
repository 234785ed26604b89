// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PARALLEL_SWARM_STATION_HPP
#define CAUSEWAY_PARALLEL_SWARM_STATION_HPP

// One peer's share of a turn in a swarm: which micro-batches it has been given, what it has of them, what it computes next
// and where the result goes. A state machine without network and clock: orders and tensors go in, tasks and shipments come
// out. Everything may come twice: what is there already is passed over, so nothing is computed into the gradient twice.
//
// Where the peers of a stage hold different values, a micro-batch that begins anew somewhere begins anew in all stages
// above too: orders and tensors carry the pass that they belong to, and no gradient is made of two passes' values.

#include <causeway/config/config.hpp>
#include <causeway/core/error.hpp>
#include <causeway/net/fabric.hpp>
#include <causeway/parallel/swarm_messages.hpp>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace causeway::inline CAUSEWAY_ABI::parallel {

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
class swarm_station {
 public:
  swarm_station(net::peer_id self, std::uint32_t stage, std::uint32_t stages)
      : self_{self}, stage_{stage}, stages_{stages} {}

  /// `counted`: what this peer has contributed before; of the same size, or empty for nothing.
  void begin(std::uint64_t turn, std::uint32_t micro_batches, swarm_wire::batch_set counted = {}) {
    turn_ = turn;
    slots_.clear();
    shipments_.clear();
    counted_ = counted.size() == micro_batches ? std::move(counted) : swarm_wire::batch_set{micro_batches};
    done_ = counted_;
    next_place_ = 0;
  }

  // ---- events ----------------------------------------------------------------------------------------------------------

  /// A path, or a later version of it. What is kept here goes to neighbours that stand in for others.
  void take(const swarm_wire::order& o) {
    if (o.turn != turn_ || o.micro_batch >= done_.size() || o.path.size() != stages_ || o.passes.size() != stages_) return;
    slot& s = at(o.micro_batch);
    if (s.ordered && o.version <= s.path.version) return;
    const net::peer_id above = s.ordered ? neighbour(s, true) : 0;
    const net::peer_id below = s.ordered ? neighbour(s, false) : 0;
    s.path = o;
    s.ordered = o.path[stage_] == self_;
    if (!s.ordered) return;
    if (o.passes[stage_] > s.pass) s.begin_anew(o.passes[stage_]);
    if (s.output && (needs_again(s, true) || neighbour(s, true) != above)) ship(o.micro_batch, s, false);
    if (s.d_input && (needs_again(s, false) || neighbour(s, false) != below)) ship(o.micro_batch, s, true);
  }

  /// A tensor from a neighbouring stage; it may come before the order. An input is of this stage's pass; a gradient, of the
  /// pass of the stage above: that stage may have begun anew from the output that is kept here, never the other way round.
  void arrive(std::uint32_t micro_batch, bool backward, boundary_bytes bytes, std::uint64_t pass = 0) {
    if (micro_batch >= done_.size()) return;
    slot& s = at(micro_batch);
    received& place = backward ? s.d_output : s.input;
    if (pass < s.pass || (place.bytes && place.pass >= pass)) return;
    // An input of a pass to come is kept also where this one is finished: the order that begins anew may be on its way.
    if (backward ? s.finished : pass == s.pass && (s.forwarded || s.finished)) return;
    place = {std::move(bytes), pass};
    s.place = next_place_++;
  }

  /// What had arrived is of no use. Gives whom it is to come from; it may come again.
  net::peer_id refuse(std::uint32_t micro_batch, bool backward) {
    slot& s = at(micro_batch);
    (backward ? s.d_output : s.input).bytes.reset();
    return neighbour(s, backward);
  }

  /// Whether a tensor for this micro-batch is to come from that peer, as far as the orders say.
  [[nodiscard]] bool expects(net::peer_id peer, std::uint32_t micro_batch, bool backward) const {
    const auto known = slots_.find(micro_batch);
    return peer != 0 && known != slots_.end() && known->second.ordered && neighbour(known->second, backward) == peer;
  }

  /// A connection to this peer was made again: what it may have missed is sent once more.
  void connected(net::peer_id peer) {
    for (auto& [m, s] : slots_) {
      if (!s.ordered) continue;
      if (s.output && neighbour(s, true) == peer) ship(m, s, false);
      if (s.d_input && neighbour(s, false) == peer) ship(m, s, true);
    }
  }

  /// Another driver: what it does not hear about in a report does not happen.
  void drop_orders() {
    for (auto& [m, s] : slots_) s.ordered = s.ordered && (s.forwarded || s.finished);
  }

  /// The gradient was cleared.
  void drop_contributions() {
    std::erase_if(slots_, [](const auto& s) { return s.second.finished; });
    done_ = counted_;
  }
  /// The driver took this peer for lost, and has given all of it to others.
  void forget() {
    slots_.clear();
    done_ = counted_;
  }
  /// What has been contributed since the turn began is in this peer's parameters now; or, with false, what was counted
  /// before is not in them any more.
  void settle(bool counts) {
    counted_ = counts ? done_ : swarm_wire::batch_set{done_.size()};
    if (!counts) done_ = counted_;
  }

  // ---- work ------------------------------------------------------------------------------------------------------------

  /// Gradients first: they let go of memory. Then in the order of arrival.
  [[nodiscard]] std::optional<swarm_task> next() const {
    const std::pair<const std::uint32_t, slot>* best = nullptr;
    for (const auto& entry : slots_) {
      const slot& s = entry.second;
      if (!s.ordered || s.finished || !(ready_back(s) || ready_forth(s))) continue;
      const bool better =
          best == nullptr || (ready_back(s) != ready_back(best->second) ? ready_back(s) : s.place < best->second.place);
      if (better) best = &entry;
    }
    if (best == nullptr) return std::nullopt;
    const slot& s = best->second;
    const bool backward = ready_back(s);
    return swarm_task{best->first, backward, backward ? s.d_output.bytes : s.input.bytes, s.pass};
  }

  /// The forward of a task is computed; `output`: null on the last stage. Of no use if the micro-batch has begun anew.
  void forwarded(std::uint32_t micro_batch, boundary_bytes output, std::uint64_t pass = 0) {
    slot& s = at(micro_batch);
    if (s.pass != pass) return;
    s.forwarded = true;
    s.input.bytes.reset();
    s.output = std::move(output);
    s.place = next_place_++;
    if (s.output && s.ordered) ship(micro_batch, s, false);
  }

  /// The gradient of the micro-batch is in this peer's, whichever pass it is of; `d_input`: null on the first stage, and in
  /// an evaluation.
  void contributed(std::uint32_t micro_batch, double loss, boundary_bytes d_input, std::uint64_t pass = 0) {
    slot& s = at(micro_batch);
    done_.add(micro_batch);
    s.loss = loss;
    if (s.pass != pass) return;
    s.finished = true;
    s.d_output.bytes.reset();
    s.d_input = std::move(d_input);
    if (s.d_input && s.ordered) ship(micro_batch, s, true);
  }

  [[nodiscard]] std::vector<swarm_shipment> take_shipments() { return std::exchange(shipments_, {}); }

  // ---- to look at ------------------------------------------------------------------------------------------------------

  [[nodiscard]] std::uint64_t turn() const noexcept { return turn_; }
  [[nodiscard]] std::uint32_t stage() const noexcept { return stage_; }
  [[nodiscard]] const swarm_wire::batch_set& done() const noexcept { return done_; }
  /// Whether its gradient is to be added: another pass of what is there already is for the neighbours' sake.
  [[nodiscard]] bool adds(std::uint32_t micro_batch) const noexcept { return !done_.has(micro_batch); }
  /// Micro-batches in the gradient: contributed since the turn began.
  [[nodiscard]] std::uint32_t pending() const noexcept { return done_.count() - counted_.count(); }
  /// Micro-batches that wait for this peer.
  [[nodiscard]] std::uint32_t queued() const {
    std::uint32_t n = 0;
    for (const auto& [m, s] : slots_) n += s.ordered && !s.finished && (ready_back(s) || ready_forth(s)) ? 1U : 0U;
    return n;
  }
  [[nodiscard]] swarm_wire::report summary(std::uint32_t term) const {
    swarm_wire::report r{term, turn_, done_, swarm_wire::batch_set{done_.size()}, {}};
    for (const auto& [m, s] : slots_) {
      if (s.forwarded && !done_.has(m)) r.begun.add(m);
      if (done_.has(m) && stage_ + 1 == stages_) r.losses.push_back(s.loss);
    }
    if (r.losses.size() != r.done.count()) r.losses.clear();  // some are of earlier turns
    return r;
  }
  /// What the gradients of micro-batches computed forward are waited for from.
  [[nodiscard]] std::vector<std::pair<std::uint32_t, net::peer_id>> waiting_for() const {
    std::vector<std::pair<std::uint32_t, net::peer_id>> all;
    for (const auto& [m, s] : slots_) {
      if (!s.ordered || s.finished || ready_back(s) || ready_forth(s)) continue;
      all.emplace_back(m, neighbour(s, s.forwarded));
    }
    return all;
  }

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
    void begin_anew(std::uint64_t from) {
      pass = from;
      forwarded = finished = false;
      if (input.pass < pass) input.bytes.reset();
      d_output.bytes.reset();
      output.reset();
      d_input.reset();
    }
  };

  slot& at(std::uint32_t micro_batch) {
    const auto [place, fresh] = slots_.try_emplace(micro_batch);
    if (fresh) place->second.place = next_place_++;
    return place->second;
  }

  [[nodiscard]] bool ready_forth(const slot& s) const {
    return !s.forwarded && (stage_ == 0 || (s.input.bytes && s.input.pass == s.pass));
  }
  [[nodiscard]] bool ready_back(const slot& s) const { return s.forwarded && (stage_ + 1 == stages_ || s.d_output.bytes); }

  // Of the next stage that the path passes, or of the one before. 0: none.
  [[nodiscard]] net::peer_id neighbour(const slot& s, bool above) const {
    const std::size_t at = neighbouring_stage(s, above);
    return at < stages_ ? s.path.path[at] : 0;
  }
  [[nodiscard]] std::size_t neighbouring_stage(const slot& s, bool above) const {
    std::size_t k = stage_;
    do {
      k = above ? k + 1 : k - 1;  // below stage 0: beyond all stages
    } while (k < stages_ && s.path.path[k] == 0);
    return k;
  }

  [[nodiscard]] bool needs_again(const slot& s, bool above) const {
    const std::size_t k = neighbouring_stage(s, above);
    return k < stages_ && s.path.needs[k] == swarm_wire::stage_need::again;
  }

  void ship(std::uint32_t micro_batch, const slot& s, bool backward) {
    const std::size_t k = neighbouring_stage(s, !backward);
    if (k >= stages_ || s.path.needs[k] == swarm_wire::stage_need::finished) return;
    const std::uint64_t pass = s.path.passes[backward ? stage_ : k];
    shipments_.push_back({s.path.path[k], micro_batch, backward, backward ? s.d_input : s.output, pass});
  }

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

}  // namespace causeway::inline CAUSEWAY_ABI::parallel

#endif  // CAUSEWAY_PARALLEL_SWARM_STATION_HPP
