// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PARALLEL_SWARM_IMPL_PATH_SCHEDULERS_IPP
#define CAUSEWAY_PARALLEL_SWARM_IMPL_PATH_SCHEDULERS_IPP

#include <causeway/parallel/swarm/path_schedulers.hpp>

#include <algorithm>
#include <cstddef>
#include <numeric>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace parallel {

CAUSEWAY_DECL void path_schedulers::peers_differ() noexcept {
  for (auto& one : all_) one.peers_differ();
}

CAUSEWAY_DECL void path_schedulers::split(std::uint32_t paths) {
  all_.assign(paths, swarm_scheduler{all_.front()});
  forget_who_lacks();
}

CAUSEWAY_DECL void path_schedulers::serves(net::peer_id id, const swarm_wire::status& s, std::uint64_t last_round) {
  const auto known = path_of_.find(id);
  const bool stays = s.on_path != 0 && s.turn > last_round && s.module_path < count();
  const std::uint32_t path =
      stays ? s.module_path : fewest(id, s.stage, known == path_of_.end() ? s.module_path : known->second);
  if (known != path_of_.end() && known->second != path) all_[known->second].gone(id);
  path_of_[id] = path;
  all_[path].serves(id, s.stage);
}

CAUSEWAY_DECL void path_schedulers::gone(net::peer_id id) {
  if (auto* own = of(id)) own->gone(id);
  path_of_.erase(id);
}

CAUSEWAY_DECL void path_schedulers::failed(net::peer_id id, std::uint64_t turn, std::uint32_t m) {
  if (m < places_.size()) all_[places_[m].path].failed(id, turn, places_[m].number);
}

CAUSEWAY_DECL void path_schedulers::measured(net::peer_id id, double seconds) {
  if (auto* own = of(id)) own->known().measured(id, seconds);
}

CAUSEWAY_DECL void path_schedulers::link(net::peer_id a, net::peer_id b, double seconds) {
  for (auto& one : all_) one.known().link(a, b, seconds);
}

CAUSEWAY_DECL void path_schedulers::begin(std::uint32_t term, std::uint64_t turn, const stage::routing::step_size& size,
                                          std::uint32_t batch, const std::set<net::peer_id>& from) {
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

CAUSEWAY_DECL void path_schedulers::take(net::peer_id from, const swarm_wire::report& r) {
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

CAUSEWAY_DECL void path_schedulers::take(net::peer_id from, swarm_wire::contributed c) {
  if (c.turn != turn_ || c.micro_batch >= places_.size()) return;
  const place at = places_[c.micro_batch];
  c.micro_batch = at.number;
  all_[at.path].take(from, c);
}

CAUSEWAY_DECL void path_schedulers::summed(std::uint32_t stage, bool has) {
  for (auto& one : all_) one.summed(stage, has);
}

CAUSEWAY_DECL void path_schedulers::look_for_resting(time_point now, duration patience) {
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

CAUSEWAY_DECL std::vector<addressed_order> path_schedulers::take_orders() {
  std::vector<addressed_order> orders;
  for (std::uint32_t p = 0; p < count(); ++p) {
    for (addressed_order& o : all_[p].take_orders()) {
      o.what.micro_batch = batches_[p][o.what.micro_batch];
      orders.push_back(std::move(o));
    }
  }
  return orders;
}

CAUSEWAY_DECL bool path_schedulers::complete() const {
  for (std::uint32_t p = 0; p < count(); ++p) {
    if (!rests(p) && !all_[p].complete()) return false;
  }
  return true;
}

CAUSEWAY_DECL swarm_wire::verdict path_schedulers::judge(std::uint64_t turn) const {
  return {turn, complete() ? std::uint8_t{1} : std::uint8_t{0}, loss(), left_out()};
}

CAUSEWAY_DECL swarm_wire::batch_set path_schedulers::left_out() const {
  swarm_wire::batch_set set{count() > 1 ? static_cast<std::uint32_t>(places_.size()) : 0};
  for (std::uint32_t m = 0; m < set.size(); ++m) {
    if (rests(places_[m].path)) set.add(m);
  }
  return set;
}

CAUSEWAY_DECL double path_schedulers::loss() const {
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

CAUSEWAY_DECL swarm_scheduler* path_schedulers::of(net::peer_id id) {
  const auto known = path_of_.find(id);
  return known == path_of_.end() ? nullptr : &all_[known->second];
}

CAUSEWAY_DECL void path_schedulers::forget_who_lacks() {
  since_.assign(all_.size(), {});
  rests_.assign(all_.size(), false);
}

CAUSEWAY_DECL bool path_schedulers::is_served(std::uint32_t stage) const {
  return std::any_of(all_.begin(), all_.end(), [stage](const auto& one) { return !one.known().at(stage).empty(); });
}

CAUSEWAY_DECL std::uint32_t path_schedulers::fewest(net::peer_id id, std::uint32_t stage, std::uint32_t preferred) const {
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

}}}  // namespace causeway::CAUSEWAY_ABI::parallel

#endif  // CAUSEWAY_PARALLEL_SWARM_IMPL_PATH_SCHEDULERS_IPP
