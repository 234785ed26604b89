// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_EXAMPLES_NOTED_ROUND_HPP
#define CAUSEWAY_EXAMPLES_NOTED_ROUND_HPP

// A peer of a swarm whose doings are noted down: who put how many micro-batches into its stage's sum, and how long one
// takes.

#include <causeway/core/result.hpp>
#include <causeway/parallel/swarm/swarm_peer.hpp>
#include <causeway/parallel/swarm/swarm_shares.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace app {

class noted_round {
 public:
  /// `measured` is called after every step with the seconds that a micro-batch takes here. This must outlive the steps.
  noted_round(std::shared_ptr<causeway::parallel::swarm_peer> peer, std::function<void(double)> measured)
      : peer_{std::move(peer)} {
    peer_->watch({.takes_part =
                      [this](std::span<const causeway::parallel::swarm_holding> all, std::size_t self,
                             const causeway::result<causeway::parallel::swarm_part_taken>& part) {
                        if (part) note(all, all[self]);
                      },
                  .steps = [this, measured = std::move(measured)] { measured(peer_->seconds_per_micro_batch()); }});
  }
  noted_round(const noted_round&) = delete;
  noted_round& operator=(const noted_round&) = delete;

  [[nodiscard]] const std::shared_ptr<causeway::parallel::swarm_peer>& peer() const noexcept { return peer_; }
  /// Of the exchange that made this step, if this peer took part: the micro-batches of each peer of the stage. Who had the
  /// whole sum from an earlier attempt has them all.
  [[nodiscard]] std::vector<std::uint32_t> shares(std::uint64_t step) const {
    return step == step_ + 1 ? shares_ : std::vector<std::uint32_t>{};
  }
  /// Peers in the last exchange.
  [[nodiscard]] std::uint32_t peers() const noexcept { return static_cast<std::uint32_t>(shares_.size()); }

 private:
  void note(std::span<const causeway::parallel::swarm_holding> all, const causeway::parallel::swarm_holding& own) {
    using causeway::parallel::swarm_part;
    causeway::parallel::swarm_wire::batch_set wanted{own.done.size()};
    for (std::uint32_t m = 0; m < wanted.size(); ++m) wanted.add(m);
    const auto plan = causeway::parallel::plan_shares(all, own.step, wanted);
    shares_.clear();
    step_ = own.step;
    for (std::size_t p = 0; p < all.size(); ++p) {
      const std::uint32_t whole = plan.parts[p] == swarm_part::sum ? wanted.size() : 0;
      shares_.push_back(plan.parts[p] == swarm_part::own ? all[p].done.count() : whole);
    }
  }

  std::shared_ptr<causeway::parallel::swarm_peer> peer_;
  std::vector<std::uint32_t> shares_;
  std::uint64_t step_ = 0;
};

}  // namespace app

#endif  // CAUSEWAY_EXAMPLES_NOTED_ROUND_HPP
