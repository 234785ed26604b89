// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PARALLEL_ELASTIC_STEP_MEETINGS_HPP
#define CAUSEWAY_PARALLEL_ELASTIC_STEP_MEETINGS_HPP

// How the peers of an attempt meet: each says what it holds and which turn it is at, and those who are at a later one wait
// for the others. They may meet several times in an attempt.

#include <causeway/collective/channels.hpp>
#include <causeway/core/result.hpp>
#include <causeway/net/transport.hpp>
#include <causeway/parallel/elastic/peer_inventory.hpp>
#include <causeway/parallel/elastic/pipeline_peer.hpp>
#include <causeway/parallel/elastic/step_turns.hpp>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace parallel {

/// Of one peer.
class step_meetings {
 public:
  /// Another attempt.
  void begin() noexcept { number_ = 0; }
  /// Of the meeting that was last, in its attempt; and among those of all attempts.
  [[nodiscard]] std::uint64_t number() const noexcept { return number_; }
  [[nodiscard]] std::uint64_t name(const pipeline_peer& peer) const noexcept {
    return (peer.attempt.round << 16U) + number_;
  }
  /// What names messages of that meeting.
  [[nodiscard]] net::message_id named(const pipeline_peer& peer, pipeline_peer::channel kind) const {
    return peer.named(kind, number_);
  }
  /// Of sums of gradients. Those of boundaries hold the micro-batch besides.
  [[nodiscard]] net::message_id gradients(const pipeline_peer& peer) const {
    net::message_id id = named(peer, pipeline_peer::sums_channel);
    id.channel = collective::channels::gradients;
    return id;
  }

  /// An evaluation is over; not a number: nobody told what it came to.
  void came_to(double sum) noexcept { turns_.came_to(sum); }
  /// Of an evaluation that others are through with.
  [[nodiscard]] double missed() const noexcept { return missed_; }

  /// What all peers of the attempt hold, once all are at the same turn; `own` is this peer's word, without its turn. None:
  /// the others are past this peer's, and told it what it missed.
  result<std::optional<cluster_inventory>> meet(auto& ctx, pipeline_peer& peer, peer_inventory own, bool trains,
                                                const pipeline_agreement& ours) {
    turns_.at(peer.record().state);
    own.turn = turns_.now(trains);
    for (;;) {
      ++number_;
      CAUSEWAY_ASSIGN(cluster_inventory inventory,
                      peer.gather(named(peer, pipeline_peer::inventory_channel), own, ours, peer.how(ctx)));
      if (own.turn.order() < furthest(inventory.turns)) {
        missed_ = parallel::missed(own.turn, inventory.turns);
        return std::optional<cluster_inventory>{};
      }
      const auto with_us = [&](const step_turn& t) { return t.order() == own.turn.order(); };
      if (!std::all_of(inventory.turns.begin(), inventory.turns.end(), with_us)) continue;  // the others come after
      return std::optional{std::move(inventory)};
    }
  }

 private:
  std::uint64_t number_ = 0;
  step_turns turns_;
  double missed_ = 0;
};

}}}  // namespace causeway::CAUSEWAY_ABI::parallel

#endif  // CAUSEWAY_PARALLEL_ELASTIC_STEP_MEETINGS_HPP
