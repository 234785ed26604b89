// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PARALLEL_SWARM_IMPL_PEER_DIRECTORY_IPP
#define CAUSEWAY_PARALLEL_SWARM_IMPL_PEER_DIRECTORY_IPP

#include <causeway/parallel/swarm/peer_directory.hpp>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace parallel {

CAUSEWAY_DECL peer_directory::peer_directory(net::peer_id self, std::uint32_t stages) : self_{self}, sums_(stages) {}

CAUSEWAY_DECL void peer_directory::up(net::peer_id id, net::peer_index link, const std::string& address, time_point now) {
  swarm_neighbour& p = peers_[id];
  p = {link, true, address, std::nullopt, now, {}, p.delay, p.delay > 0};
  by_link_[link] = id;
  ++changes_;
}

CAUSEWAY_DECL void peer_directory::down(net::peer_id id) {
  swarm_neighbour& p = peers_[id];
  p.up = false;
  p.said.reset();
  by_link_.erase(p.link);
  ++changes_;
  if (peers_.size() > most_known) peers_.erase(id);
}

CAUSEWAY_DECL void peer_directory::take(net::peer_id from, const swarm_wire::status& s, time_point now) {
  swarm_neighbour& p = peers_[from];
  if (!p.said || !says_the_same(*p.said, s)) ++changes_;
  p.said = s;
  p.heard = now;
  term_ = std::max(term_, s.term);
  for (const auto& sum : s.sums) remember(s.stage, sum);
  remember_decided(s.decided);
}

CAUSEWAY_DECL void peer_directory::echoed(net::peer_id from, std::uint64_t mark, time_point now) {
  swarm_neighbour& p = peers_[from];
  if (p.probed == time_point{} || mark != mark_of(p.probed)) return;
  const double took = 0.5 * seconds(now - p.probed);
  p.delay = p.delay > 0 ? 0.7 * p.delay + 0.3 * took : took;
  p.news = true;
  p.probed = {};
}

CAUSEWAY_DECL swarm_wire::delays peer_directory::take_delays() {
  swarm_wire::delays all;
  for (auto& [id, p] : peers_) {
    if (!p.up || !p.news || all.list.size() == swarm_wire::most_addresses) continue;
    all.list.push_back({id, p.delay});
    p.news = false;
  }
  return all;
}

CAUSEWAY_DECL void peer_directory::tell_delays_again() {
  for (auto& [id, p] : peers_) p.news = p.delay > 0;
}

CAUSEWAY_DECL std::vector<net::peer_id> peer_directory::next_few(std::size_t count) {
  std::vector<net::peer_id> few;
  auto at = peers_.upper_bound(last_of_few_);
  for (std::size_t looked = 0; looked < peers_.size() && few.size() < count; ++looked) {
    if (at == peers_.end()) at = peers_.begin();
    if (at->second.up) few.push_back(at->first);
    ++at;
  }
  if (!few.empty()) last_of_few_ = few.back();
  return few;
}

CAUSEWAY_DECL void peer_directory::remember(std::uint32_t stage, const swarm_wire::stage_sum& sum) {
  if (stage < sums_.size()) remember(sums_[stage], sum);
}

CAUSEWAY_DECL void peer_directory::remember(sums& known, const swarm_wire::stage_sum& sum) {
  if (sum.squares < 0) return;
  known.try_emplace(sum.step, sum);
  while (known.size() > 4) known.erase(known.begin());
}

CAUSEWAY_DECL std::optional<swarm_wire::stage_sum> peer_directory::of(const sums& known, std::uint64_t step) {
  const auto at = known.find(step);
  return at == known.end() ? std::nullopt : std::optional{at->second};
}

CAUSEWAY_DECL bool peer_directory::remembers(std::uint32_t stage, std::uint64_t step) const {
  return sums_[stage].contains(step);
}

CAUSEWAY_DECL std::optional<swarm_wire::stage_sum> peer_directory::decided(std::uint64_t step) const {
  return of(decided_, step);
}

CAUSEWAY_DECL std::optional<swarm_wire::stage_sum> peer_directory::total(std::uint64_t step) const {
  std::optional<swarm_wire::stage_sum> all;
  for (const sums& of_stage : sums_) {
    const auto part = of(of_stage, step);
    if (!part) return std::nullopt;
    if (!all) {
      all = part;
      continue;
    }
    all->squares += part->squares;
    all->asked.resize(std::min(all->asked.size(), part->asked.size()));
    for (std::size_t i = 0; i < all->asked.size(); ++i) all->asked[i] += part->asked[i];
  }
  return all;
}

CAUSEWAY_DECL bool peer_directory::left_behind(std::uint64_t step) const {
  return std::any_of(peers_.begin(), peers_.end(), [&](const auto& p) {
    if (serves(p.second) && swarm_wire::step_of(p.second.said->turn) > step + 1) return true;
    return p.second.up && p.second.said && p.second.said->committed > step + 1;
  });
}

CAUSEWAY_DECL bool peer_directory::has_sum(std::uint32_t stage, std::uint64_t step) const {
  return std::any_of(peers_.begin(), peers_.end(), [&](const auto& p) {
    const auto& said = p.second.said;
    if (!p.second.up || !said || said->stage != stage) return false;
    return std::any_of(std::begin(said->sums), std::end(said->sums),
                       [&](const auto& sum) { return sum.step == step && sum.squares >= 0; });
  });
}

CAUSEWAY_DECL bool peer_directory::serves(const swarm_neighbour& p) { return p.up && p.said && p.said->serving != 0; }
CAUSEWAY_DECL bool peer_directory::beyond(const swarm_neighbour& p, std::uint64_t turn) {
  return serves(p) && p.said->turn > turn;
}

CAUSEWAY_DECL bool peer_directory::serves(net::peer_id id) const {
  const auto at = peers_.find(id);
  return at != peers_.end() && serves(at->second);
}

CAUSEWAY_DECL bool peer_directory::anybody_serves(std::uint32_t stage) const {
  return std::any_of(peers_.begin(), peers_.end(),
                     [&](const auto& p) { return serves(p.second) && p.second.said->stage == stage; });
}

CAUSEWAY_DECL bool peer_directory::reached(net::peer_id id, std::uint64_t turn) const {
  const auto at = peers_.find(id);
  return at != peers_.end() && serves(at->second) && at->second.said->turn >= turn;
}

CAUSEWAY_DECL bool peer_directory::beyond(net::peer_id id, std::uint64_t turn) const {
  const auto at = peers_.find(id);
  return at != peers_.end() && beyond(at->second, turn);
}

CAUSEWAY_DECL bool peer_directory::anybody_beyond(std::uint64_t turn) const {
  return std::any_of(peers_.begin(), peers_.end(), [&](const auto& p) { return beyond(p.second, turn); });
}

CAUSEWAY_DECL bool peer_directory::anybody_through(std::uint64_t turn) const {
  return anybody_beyond(turn) || std::any_of(peers_.begin(), peers_.end(), [&](const auto& p) {
           return p.second.up && p.second.said && p.second.said->committed > swarm_wire::step_of(turn);
         });
}

CAUSEWAY_DECL bool peer_directory::anybody_beyond(std::uint32_t stage, std::uint64_t turn) const {
  return std::any_of(peers_.begin(), peers_.end(),
                     [&](const auto& p) { return beyond(p.second, turn) && p.second.said->stage == stage; });
}

CAUSEWAY_DECL auto peer_directory::coordinator(std::uint32_t own_term) const -> coordinator_choice {
  coordinator_choice best = own_term > 0 ? coordinator_choice{self_, own_term} : coordinator_choice{};
  for (const auto& [id, p] : peers_) {
    if (!serves(p) || p.said->coordinates == 0 || p.said->term < best.term) continue;
    if (p.said->term > best.term || id < best.id) best = {id, p.said->term};
  }
  return best;
}

CAUSEWAY_DECL bool peer_directory::first_in_line() const {
  return std::none_of(peers_.begin(), peers_.end(),
                      [this](const auto& p) { return p.first < self_ && serves(p.second) && p.second.said->stage == 0; });
}

CAUSEWAY_DECL net::peer_id peer_directory::at(net::peer_index link) const {
  const auto found = by_link_.find(link);
  return found == by_link_.end() ? 0 : found->second;
}

CAUSEWAY_DECL std::optional<net::peer_index> peer_directory::link_to(net::peer_id id) const {
  const auto at = peers_.find(id);
  return at == peers_.end() || !at->second.up ? std::nullopt : std::optional{at->second.link};
}

CAUSEWAY_DECL bool peer_directory::says_the_same(const swarm_wire::status& a, const swarm_wire::status& b) {
  const auto sum = [](const auto& x, const auto& y) {
    return x.step == y.step && x.squares == y.squares && x.asked == y.asked;
  };
  return a.stage == b.stage && a.serving == b.serving && a.turn == b.turn && a.term == b.term &&
         a.coordinates == b.coordinates && sum(a.sums[0], b.sums[0]) && sum(a.sums[1], b.sums[1]) && a.part == b.part &&
         a.committed == b.committed && sum(a.decided, b.decided);
}

}}}  // namespace causeway::CAUSEWAY_ABI::parallel

#endif  // CAUSEWAY_PARALLEL_SWARM_IMPL_PEER_DIRECTORY_IPP
