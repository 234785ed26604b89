// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PARALLEL_SWARM_PATH_SCHEDULERS_HPP
#define CAUSEWAY_PARALLEL_SWARM_PATH_SCHEDULERS_HPP

// A scheduler for each path through a model of modules; one, where all peers train one model. A global batch has an equal
// part for each path, in their order, and a micro-batch goes through peers of its own path only: so each path is a swarm of
// its own, with a part of every stage's peers. docs/design/swarm.md, L22 and L23.

#include <causeway/config/config.hpp>
#include <causeway/core/clock.hpp>
#include <causeway/net/fabric.hpp>
#include <causeway/parallel/swarm/swarm_messages.hpp>
#include <causeway/parallel/swarm/swarm_scheduler.hpp>
#include <causeway/stage/any_router.hpp>
#include <causeway/stage/routing.hpp>

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace parallel {

/// As swarm_scheduler, for all paths together.
class path_schedulers {
 public:
  path_schedulers(std::uint32_t stages, stage::routing::any_router router, std::uint32_t window, bool steps_alone)
      : all_(1, swarm_scheduler{stages, std::move(router), window, steps_alone}), since_(1), rests_(1, false) {}
  CAUSEWAY_DECL void peers_differ() noexcept;

  /// Before anybody serves.
  CAUSEWAY_DECL void split(std::uint32_t paths);

  // ---- who is there ----------------------------------------------------------------------------------------------------

  /// Who is on no path in this round, which came after the turn `last_round`, gets the one that has the fewest peers of its
  /// stage: that where it is, or was last, if others have no fewer, else the first such. Where there are fewer peers than
  /// paths, nobody gets the last ones.
  CAUSEWAY_DECL void serves(net::peer_id id, const swarm_wire::status& s, std::uint64_t last_round);
  CAUSEWAY_DECL void gone(net::peer_id id);
  CAUSEWAY_DECL void failed(net::peer_id id, std::uint64_t turn, std::uint32_t m);
  CAUSEWAY_DECL void measured(net::peer_id id, double seconds);
  CAUSEWAY_DECL void link(net::peer_id a, net::peer_id b, double seconds);
  [[nodiscard]] double link(net::peer_id a, net::peer_id b) const { return all_.front().known().link(a, b); }

  // ---- a turn ----------------------------------------------------------------------------------------------------------

  /// `batch`: micro-batches of a global batch, of which the turn has some. 0: they are of no path, and go to all who do not
  /// rest.
  CAUSEWAY_DECL void begin(std::uint32_t term, std::uint64_t turn, const stage::routing::step_size& size,
                           std::uint32_t batch, const std::set<net::peer_id>& from = {});
  CAUSEWAY_DECL void take(net::peer_id from, const swarm_wire::report& r);
  CAUSEWAY_DECL void take(net::peer_id from, swarm_wire::contributed c);
  CAUSEWAY_DECL void summed(std::uint32_t stage, bool has);

  /// A path rests where a stage that others serve has had nobody on it for so long. It goes on with who comes.
  CAUSEWAY_DECL void look_for_resting(time_point now, duration patience);

  // ---- what comes out --------------------------------------------------------------------------------------------------

  CAUSEWAY_DECL [[nodiscard]] std::vector<addressed_order> take_orders();
  CAUSEWAY_DECL [[nodiscard]] bool complete() const;
  CAUSEWAY_DECL [[nodiscard]] swarm_wire::verdict judge(std::uint64_t turn) const;
  /// Of paths that rest.
  CAUSEWAY_DECL [[nodiscard]] swarm_wire::batch_set left_out() const;
  /// Where paths rest, of the others, as if theirs were the mean of all.
  CAUSEWAY_DECL [[nodiscard]] double loss() const;
  [[nodiscard]] std::uint64_t finished() const { return total(&swarm_scheduler::finished); }
  [[nodiscard]] std::uint64_t rerouted() const { return total(&swarm_scheduler::rerouted); }

 private:
  struct place {
    std::uint32_t path = 0;
    std::uint32_t number = 0;  ///< among the path's
  };

  [[nodiscard]] std::uint32_t count() const noexcept { return static_cast<std::uint32_t>(all_.size()); }
  CAUSEWAY_DECL [[nodiscard]] swarm_scheduler* of(net::peer_id id);
  CAUSEWAY_DECL void forget_who_lacks();
  [[nodiscard]] bool rests(std::uint32_t path) const { return rests_[path] && !all_[path].unserved().empty(); }
  CAUSEWAY_DECL [[nodiscard]] bool is_served(std::uint32_t stage) const;
  template <class Count>
  [[nodiscard]] std::uint64_t total(Count of_one) const {
    std::uint64_t sum = 0;
    for (const auto& one : all_) sum += (one.*of_one)();
    return sum;
  }
  CAUSEWAY_DECL [[nodiscard]] std::uint32_t fewest(net::peer_id id, std::uint32_t stage, std::uint32_t preferred) const;

  std::vector<swarm_scheduler> all_;
  std::vector<std::optional<time_point>> since_;     // by path: when a stage was first seen with nobody on it
  std::vector<bool> rests_;                          // likewise
  std::vector<std::vector<std::uint32_t>> batches_;  // by path: its micro-batches of the turn
  std::vector<place> places_;                        // by micro-batch
  std::map<net::peer_id, std::uint32_t> path_of_;
  std::uint64_t turn_ = 0;
  std::uint32_t term_ = 0;
};

}}}  // namespace causeway::CAUSEWAY_ABI::parallel

#ifndef CAUSEWAY_COMPILED
#include <causeway/parallel/swarm/impl/path_schedulers.ipp>
#endif

#endif  // CAUSEWAY_PARALLEL_SWARM_PATH_SCHEDULERS_HPP
