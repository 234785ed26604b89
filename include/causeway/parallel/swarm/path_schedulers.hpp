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
#include <causeway/stage/routing.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace parallel {

/// As swarm_scheduler, for all paths together.
template <stage::routing::Router Router>
class path_schedulers {
 public:
  path_schedulers(std::uint32_t stages, Router router, std::uint32_t window, bool steps_alone)
      : all_(1, swarm_scheduler<Router>{stages, std::move(router), window, steps_alone}), since_(1), rests_(1, false) {}
  void peers_differ() noexcept {
    for (auto& one : all_) one.peers_differ();
  }

  /// Before anybody serves.
  void split(std::uint32_t paths) {
    all_.assign(paths, swarm_scheduler<Router>{all_.front()});
    forget_who_lacks();
  }

  // ---- who is there ----------------------------------------------------------------------------------------------------

  /// Who is on no path in this round, which came after the turn `last_round`, gets the one that has the fewest peers of its
  /// stage: that where it is, or was last, if others have no fewer, else the first such. Where there are fewer peers than
  /// paths, nobody gets the last ones.
  void serves(net::peer_id id, const swarm_wire::status& s, std::uint64_t last_round) {
    const auto known = path_of_.find(id);
    const bool stays = s.on_path != 0 && s.turn > last_round && s.module_path < count();
    const std::uint32_t path =
        stays ? s.module_path : fewest(id, s.stage, known == path_of_.end() ? s.module_path : known->second);
    if (known != path_of_.end() && known->second != path) all_[known->second].gone(id);
    path_of_[id] = path;
    all_[path].serves(id, s.stage);
  }
  void gone(net::peer_id id) {
    if (auto* own = of(id)) own->gone(id);
    path_of_.erase(id);
  }
  void failed(net::peer_id id, std::uint64_t turn, std::uint32_t m) {
    if (m < places_.size()) all_[places_[m].path].failed(id, turn, places_[m].number);
  }
  void measured(net::peer_id id, double seconds) {
    if (auto* own = of(id)) own->known().measured(id, seconds);
  }
  void link(net::peer_id a, net::peer_id b, double seconds) {
    for (auto& one : all_) one.known().link(a, b, seconds);
  }

  [[nodiscard]] double link(net::peer_id a, net::peer_id b) const { return all_.front().known().link(a, b); }

  // ---- a turn ----------------------------------------------------------------------------------------------------------

  /// `batch`: micro-batches of a global batch, of which the turn has some. 0: they are of no path, and go to all who do not
  /// rest.
  void begin(std::uint32_t term, std::uint64_t turn, const stage::routing::step_size& size, std::uint32_t batch,
             const std::set<net::peer_id>& from = {}) {
    turn_ = turn;
    if (std::exchange(term_, term) != term) forget_who_lacks();
    places_.clear();
    batches_.assign(all_.size(), {});
    std::vector<std::uint32_t> awake;
    for (std::uint32_t p = 0; p < count(); ++p) {
      if (!rests(p)) awake.push_back(p);
    }
    for (std::uint32_t m = 0; m < size.micro_batches; ++m) {
      const std::uint32_t path = batch > 0 || awake.empty()
                                     ? swarm_wire::module_path_of(m, size.micro_batches, std::max(batch, count()), count())
                                     : awake[m % awake.size()];
      places_.push_back({path, static_cast<std::uint32_t>(batches_[path].size())});
      batches_[path].push_back(m);
    }
    for (std::uint32_t p = 0; p < count(); ++p) {
      std::set<net::peer_id> reporters;
      for (const net::peer_id id : from) {
        if (of(id) == &all_[p]) reporters.insert(id);
      }
      auto part = size;
      part.micro_batches = static_cast<std::uint32_t>(batches_[p].size());
      all_[p].begin(term, turn, part, std::move(reporters));
    }
  }

  void take(net::peer_id from, const swarm_wire::report& r) {
    auto* const own = of(from);
    if (own == nullptr) return;
    const auto path = static_cast<std::uint32_t>(own - all_.data());
    swarm_wire::report part{r.term, r.turn, {}, {}, {}};
    if (r.turn == turn_ && r.done.size() == places_.size()) {
      part.done = part.begun = swarm_wire::batch_set{static_cast<std::uint32_t>(batches_[path].size())};
      auto loss = r.losses.begin();
      for (std::uint32_t m = 0; m < places_.size(); ++m) {
        const bool theirs = places_[m].path == path, done = r.done.has(m);
        if (theirs && done) part.done.add(places_[m].number);
        if (theirs && r.begun.has(m)) part.begun.add(places_[m].number);
        if (theirs && done && loss != r.losses.end()) part.losses.push_back(*loss);
        if (done && loss != r.losses.end()) ++loss;
      }
    }
    own->take(from, part);
  }
  void take(net::peer_id from, swarm_wire::contributed c) {
    if (c.turn != turn_ || c.micro_batch >= places_.size()) return;
    const place at = places_[c.micro_batch];
    c.micro_batch = at.number;
    all_[at.path].take(from, c);
  }
  void summed(std::uint32_t stage, bool has) {
    for (auto& one : all_) one.summed(stage, has);
  }

  /// A path rests where a stage that others serve has had nobody on it for so long. It goes on with who comes.
  void look_for_resting(time_point now, duration patience) {
    for (std::uint32_t p = 0; p < count() && count() > 1; ++p) {
      const auto lacks = all_[p].unserved();
      const bool others = std::all_of(lacks.begin(), lacks.end(), [this](std::uint32_t s) { return is_served(s); });
      if (lacks.empty() || !others) {
        since_[p].reset();
      } else if (!since_[p]) {
        since_[p] = now;
      }
      rests_[p] = since_[p] && now - *since_[p] >= patience;
    }
  }

  // ---- what comes out --------------------------------------------------------------------------------------------------

  [[nodiscard]] std::vector<addressed_order> take_orders() {
    std::vector<addressed_order> orders;
    for (std::uint32_t p = 0; p < count(); ++p) {
      for (addressed_order& o : all_[p].take_orders()) {
        o.what.micro_batch = batches_[p][o.what.micro_batch];
        orders.push_back(std::move(o));
      }
    }
    return orders;
  }
  [[nodiscard]] bool complete() const {
    for (std::uint32_t p = 0; p < count(); ++p) {
      if (!rests(p) && !all_[p].complete()) return false;
    }
    return true;
  }
  [[nodiscard]] swarm_wire::verdict judge(std::uint64_t turn) const {
    return {turn, complete() ? std::uint8_t{1} : std::uint8_t{0}, loss(), left_out()};
  }
  /// Of paths that rest.
  [[nodiscard]] swarm_wire::batch_set left_out() const {
    swarm_wire::batch_set set{count() > 1 ? static_cast<std::uint32_t>(places_.size()) : 0};
    for (std::uint32_t m = 0; m < set.size(); ++m) {
      if (rests(places_[m].path)) set.add(m);
    }
    return set;
  }
  /// Where paths rest, of the others, as if theirs were the mean of all.
  [[nodiscard]] double loss() const {
    double sum = 0;
    std::size_t known = 0;
    for (std::uint32_t p = 0; p < count(); ++p) {
      if (rests(p)) continue;
      sum += all_[p].loss();
      known += batches_[p].size();
    }
    return known == places_.size() || known == 0 ? sum
                                                 : sum * static_cast<double>(places_.size()) / static_cast<double>(known);
  }
  [[nodiscard]] std::uint64_t finished() const { return total(&swarm_scheduler<Router>::finished); }
  [[nodiscard]] std::uint64_t rerouted() const { return total(&swarm_scheduler<Router>::rerouted); }

 private:
  struct place {
    std::uint32_t path = 0;
    std::uint32_t number = 0;  ///< among the path's
  };

  [[nodiscard]] std::uint32_t count() const noexcept { return static_cast<std::uint32_t>(all_.size()); }
  [[nodiscard]] swarm_scheduler<Router>* of(net::peer_id id) {
    const auto known = path_of_.find(id);
    return known == path_of_.end() ? nullptr : &all_[known->second];
  }
  void forget_who_lacks() {
    since_.assign(all_.size(), {});
    rests_.assign(all_.size(), false);
  }
  [[nodiscard]] bool rests(std::uint32_t path) const { return rests_[path] && !all_[path].unserved().empty(); }
  [[nodiscard]] bool is_served(std::uint32_t stage) const {
    return std::any_of(all_.begin(), all_.end(), [stage](const auto& one) { return !one.known().at(stage).empty(); });
  }
  template <class Count>
  [[nodiscard]] std::uint64_t total(Count of_one) const {
    std::uint64_t sum = 0;
    for (const auto& one : all_) sum += (one.*of_one)();
    return sum;
  }
  [[nodiscard]] std::uint32_t fewest(net::peer_id id, std::uint32_t stage, std::uint32_t preferred) const {
    std::vector<std::size_t> others;
    for (const auto& one : all_) {
      const auto there = one.known().at(stage);
      others.push_back(there.size() -
                       std::size_t(std::count_if(there.begin(), there.end(), [id](const auto& p) { return p.id == id; })));
    }
    const std::size_t peers = 1 + std::accumulate(others.begin(), others.end(), std::size_t{0});
    others.resize(std::min(others.size(), peers));  // so that the last ones rest, in all stages
    const auto least = std::min_element(others.begin(), others.end());
    return preferred < others.size() && others[preferred] == *least ? preferred
                                                                    : static_cast<std::uint32_t>(least - others.begin());
  }

  std::vector<swarm_scheduler<Router>> all_;
  std::vector<std::optional<time_point>> since_;     // by path: when a stage was first seen with nobody on it
  std::vector<bool> rests_;                          // likewise
  std::vector<std::vector<std::uint32_t>> batches_;  // by path: its micro-batches of the turn
  std::vector<place> places_;                        // by micro-batch
  std::map<net::peer_id, std::uint32_t> path_of_;
  std::uint64_t turn_ = 0;
  std::uint32_t term_ = 0;
};

}}}  // namespace causeway::CAUSEWAY_ABI::parallel

#endif  // CAUSEWAY_PARALLEL_SWARM_PATH_SCHEDULERS_HPP
