// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PARALLEL_SWARM_TABLE_HPP
#define CAUSEWAY_PARALLEL_SWARM_TABLE_HPP

// What one peer knows of a swarm: who is connected, where each stands, which stages have their sums, and who drives.

#include <causeway/config/config.hpp>
#include <causeway/core/clock.hpp>
#include <causeway/net/fabric.hpp>
#include <causeway/parallel/swarm_messages.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace causeway::inline CAUSEWAY_ABI::parallel {

/// One other peer.
struct swarm_neighbour {
  net::peer_index link = 0;
  bool up = false;
  std::string address;
  std::optional<swarm_wire::status> said;  ///< on this connection
  time_point heard;
  time_point probed;  ///< an echo is waited for since then
  double delay = 0;   ///< seconds, half a round trip; 0: not known
  bool news = false;  ///< the driver has not been told that delay
};

/// Thread safety: none; the fabric's lock serves.
class swarm_table {
 public:
  swarm_table(net::peer_id self, std::uint32_t stages) : self_{self}, sums_(stages) {}

  void up(net::peer_id id, net::peer_index link, const std::string& address, time_point now) {
    swarm_neighbour& p = peers_[id];
    p = {link, true, address, std::nullopt, now, {}, p.delay, p.delay > 0};
    by_link_[link] = id;
    ++changes_;
  }
  /// Who is down is forgotten where many are known: strangers come with new ids for ever.
  void down(net::peer_id id) {
    swarm_neighbour& p = peers_[id];
    p.up = false;
    p.said.reset();
    by_link_.erase(p.link);
    ++changes_;
    if (peers_.size() > most_known) peers_.erase(id);
  }
  void take(net::peer_id from, const swarm_wire::status& s, time_point now) {
    swarm_neighbour& p = peers_[from];
    if (!p.said || !says_the_same(*p.said, s)) ++changes_;
    p.said = s;
    p.heard = now;
    term_ = std::max(term_, s.term);
    for (const auto& sum : s.sums) remember(s.stage, sum);
  }

  /// A round trip ends, if it was this peer that began it.
  void echoed(net::peer_id from, std::uint64_t mark, time_point now) {
    swarm_neighbour& p = peers_[from];
    if (p.probed == time_point{} || mark != mark_of(p.probed)) return;
    const double took = 0.5 * seconds(now - p.probed);
    p.delay = p.delay > 0 ? 0.7 * p.delay + 0.3 * took : took;
    p.news = true;
    p.probed = {};
  }
  [[nodiscard]] static std::uint64_t mark_of(time_point t) { return static_cast<std::uint64_t>(t.since_start.count()); }

  /// Those that were measured since the last call.
  [[nodiscard]] swarm_wire::delays take_delays() {
    swarm_wire::delays all;
    for (auto& [id, p] : peers_) {
      if (!p.up || !p.news || all.list.size() == swarm_wire::most_addresses) continue;
      all.list.push_back({id, p.delay});
      p.news = false;
    }
    return all;
  }
  /// Somebody else is to be told all of them.
  void tell_delays_again() {
    for (auto& [id, p] : peers_) p.news = p.delay > 0;
  }

  /// Another one after everything that somebody said anew, but for queues and speeds.
  [[nodiscard]] std::uint64_t changes() const noexcept { return changes_; }

  /// Up to `count` of those who are connected, others with every call: all in turn.
  [[nodiscard]] std::vector<net::peer_id> next_few(std::size_t count) {
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

  /// The first one that is heard of counts for those who wait; who has it now is another question: `has_sum`.
  void remember(std::uint32_t stage, const swarm_wire::stage_sum& sum) {
    if (sum.squares < 0 || stage >= sums_.size()) return;
    sums_[stage].try_emplace(sum.step, sum.squares);
    while (sums_[stage].size() > 4) sums_[stage].erase(sums_[stage].begin());
  }
  [[nodiscard]] std::optional<double> squares(std::uint32_t stage, std::uint64_t step) const {
    const auto at = sums_[stage].find(step);
    return at == sums_[stage].end() ? std::nullopt : std::optional{at->second};
  }

  /// Of all stages; nothing while one of them is missing.
  [[nodiscard]] std::optional<double> squares(std::uint64_t step) const {
    double all = 0;
    for (std::uint32_t s = 0; s < sums_.size(); ++s) {
      const auto part = squares(s, step);
      if (!part) return std::nullopt;
      all += *part;
    }
    return all;
  }
  /// Somebody is so far ahead that nobody speaks of this step's sums any more.
  [[nodiscard]] bool left_behind(std::uint64_t step) const {
    return std::any_of(peers_.begin(), peers_.end(), [&](const auto& p) {
      if (serves(p.first) && swarm_wire::step_of(p.second.said->turn) > step + 1) return true;
      return p.second.up && p.second.said && p.second.said->committed > step + 1;
    });
  }

  /// Whether a connected peer of the stage has the sum of the step.
  [[nodiscard]] bool has_sum(std::uint32_t stage, std::uint64_t step) const {
    return std::any_of(peers_.begin(), peers_.end(), [&](const auto& p) {
      const auto& said = p.second.said;
      if (!p.second.up || !said || said->stage != stage) return false;
      return std::any_of(std::begin(said->sums), std::end(said->sums),
                         [&](const auto& sum) { return sum.step == step && sum.squares >= 0; });
    });
  }

  /// Connected, and has the weights of its stage.
  [[nodiscard]] bool serves(net::peer_id id) const {
    const auto at = peers_.find(id);
    return at != peers_.end() && at->second.up && at->second.said && at->second.said->serving != 0;
  }
  [[nodiscard]] bool anybody_serves(std::uint32_t stage) const {
    return std::any_of(peers_.begin(), peers_.end(),
                       [&](const auto& p) { return serves(p.first) && p.second.said->stage == stage; });
  }

  [[nodiscard]] bool reached(net::peer_id id, std::uint64_t turn) const {
    return serves(id) && peers_.at(id).said->turn >= turn;
  }
  [[nodiscard]] bool beyond(net::peer_id id, std::uint64_t turn) const {
    return serves(id) && peers_.at(id).said->turn > turn;
  }
  [[nodiscard]] bool anybody_beyond(std::uint64_t turn) const {
    return std::any_of(peers_.begin(), peers_.end(), [&](const auto& p) { return beyond(p.first, turn); });
  }
  [[nodiscard]] bool anybody_beyond(std::uint32_t stage, std::uint64_t turn) const {
    return std::any_of(peers_.begin(), peers_.end(),
                       [&](const auto& p) { return beyond(p.first, turn) && p.second.said->stage == stage; });
  }

  struct driver_choice {
    net::peer_id id = 0;
    std::uint32_t term = 0;
  };
  /// Who says that it drives, with the highest term; of two with the same, the one with the lower id. `self`: this peer's
  /// own claim, term 0 if it has none.
  [[nodiscard]] driver_choice driver(std::uint32_t own_term) const {
    driver_choice best = own_term > 0 ? driver_choice{self_, own_term} : driver_choice{};
    for (const auto& [id, p] : peers_) {
      if (!serves(id) || p.said->drives == 0 || p.said->term < best.term) continue;
      if (p.said->term > best.term || id < best.id) best = {id, p.said->term};
    }
    return best;
  }
  /// Whether this peer, which serves the first stage, comes before all others that could drive.
  [[nodiscard]] bool first_in_line() const {
    return std::none_of(peers_.begin(), peers_.end(),
                        [this](const auto& p) { return p.first < self_ && serves(p.first) && p.second.said->stage == 0; });
  }

  [[nodiscard]] std::map<net::peer_id, swarm_neighbour>& peers() noexcept { return peers_; }
  [[nodiscard]] const std::map<net::peer_id, swarm_neighbour>& peers() const noexcept { return peers_; }
  [[nodiscard]] net::peer_id at(net::peer_index link) const {
    const auto found = by_link_.find(link);
    return found == by_link_.end() ? 0 : found->second;
  }
  [[nodiscard]] std::optional<net::peer_index> link_to(net::peer_id id) const {
    const auto at = peers_.find(id);
    return at == peers_.end() || !at->second.up ? std::nullopt : std::optional{at->second.link};
  }
  /// The highest that was heard of.
  [[nodiscard]] std::uint32_t term() const noexcept { return term_; }
  void term(std::uint32_t t) noexcept { term_ = std::max(term_, t); }

 private:
  static bool says_the_same(const swarm_wire::status& a, const swarm_wire::status& b) {
    const auto sum = [](const auto& x, const auto& y) { return x.step == y.step && x.squares == y.squares; };
    return a.stage == b.stage && a.serving == b.serving && a.turn == b.turn && a.term == b.term && a.drives == b.drives &&
           sum(a.sums[0], b.sums[0]) && sum(a.sums[1], b.sums[1]) && a.part == b.part && a.committed == b.committed;
  }

  static constexpr std::size_t most_known = 4096;

  net::peer_id self_;
  std::map<net::peer_id, swarm_neighbour> peers_;
  std::map<net::peer_index, net::peer_id> by_link_;
  std::vector<std::map<std::uint64_t, double>> sums_;  // by stage: step, squares
  std::uint32_t term_ = 0;
  std::uint64_t changes_ = 0;
  net::peer_id last_of_few_ = 0;
};

}  // namespace causeway::inline CAUSEWAY_ABI::parallel

#endif  // CAUSEWAY_PARALLEL_SWARM_TABLE_HPP
