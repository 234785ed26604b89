// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PARALLEL_SWARM_PEER_DIRECTORY_HPP
#define CAUSEWAY_PARALLEL_SWARM_PEER_DIRECTORY_HPP

// What one peer knows of a swarm: who is connected, where each stands, which stages have their sums, and who coordinates.

#include <causeway/config/config.hpp>
#include <causeway/core/clock.hpp>
#include <causeway/net/fabric.hpp>
#include <causeway/parallel/swarm/swarm_messages.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace parallel {

/// One other peer.
struct swarm_neighbour {
  net::peer_index link = 0;
  bool up = false;
  std::string address;
  std::optional<swarm_wire::status> said;  ///< on this connection
  time_point heard;
  time_point probed;  ///< an echo is waited for since then
  double delay = 0;   ///< seconds, half a round trip; 0: not known
  bool news = false;  ///< the coordinator has not been told that delay
};

/// Thread safety: none; the fabric's lock serves.
class peer_directory {
 public:
  CAUSEWAY_DECL peer_directory(net::peer_id self, std::uint32_t stages);

  CAUSEWAY_DECL void up(net::peer_id id, net::peer_index link, const std::string& address, time_point now);
  /// Who is down is forgotten where many are known: strangers come with new ids for ever.
  CAUSEWAY_DECL void down(net::peer_id id);
  CAUSEWAY_DECL void take(net::peer_id from, const swarm_wire::status& s, time_point now);

  /// A round trip ends, if it was this peer that began it.
  CAUSEWAY_DECL void echoed(net::peer_id from, std::uint64_t mark, time_point now);
  [[nodiscard]] static std::uint64_t mark_of(time_point t) { return static_cast<std::uint64_t>(t.since_start.count()); }

  /// Those that were measured since the last call.
  CAUSEWAY_DECL [[nodiscard]] swarm_wire::delays take_delays();
  /// Somebody else is to be told all of them.
  CAUSEWAY_DECL void tell_delays_again();

  /// Another one after everything that somebody said anew, but for queues and speeds.
  [[nodiscard]] std::uint64_t changes() const noexcept { return changes_; }

  /// Up to `count` of those who are connected, others with every call: all in turn.
  CAUSEWAY_DECL [[nodiscard]] std::vector<net::peer_id> next_few(std::size_t count);

  /// The first one that is heard of counts for those who wait; who has it now is another question: `has_sum`.
  CAUSEWAY_DECL void remember(std::uint32_t stage, const swarm_wire::stage_sum& sum);
  CAUSEWAY_DECL [[nodiscard]] bool remembers(std::uint32_t stage, std::uint64_t step) const;

  /// Of all stages, what was asked for likewise: as many numbers as all of them told. Nothing while a stage is missing.
  CAUSEWAY_DECL [[nodiscard]] std::optional<swarm_wire::stage_sum> total(std::uint64_t step) const;

  /// What all stages came to in a step, as somebody has committed it.
  void remember_decided(const swarm_wire::stage_sum& total) { remember(decided_, total); }
  CAUSEWAY_DECL [[nodiscard]] std::optional<swarm_wire::stage_sum> decided(std::uint64_t step) const;
  /// Somebody is so far ahead that nobody speaks of this step's sums any more.
  CAUSEWAY_DECL [[nodiscard]] bool left_behind(std::uint64_t step) const;

  /// Whether a connected peer of the stage has the sum of the step.
  CAUSEWAY_DECL [[nodiscard]] bool has_sum(std::uint32_t stage, std::uint64_t step) const;

  /// Connected, and has the weights of its stage.
  CAUSEWAY_DECL [[nodiscard]] bool serves(net::peer_id id) const;
  CAUSEWAY_DECL [[nodiscard]] bool anybody_serves(std::uint32_t stage) const;

  CAUSEWAY_DECL [[nodiscard]] bool reached(net::peer_id id, std::uint64_t turn) const;
  CAUSEWAY_DECL [[nodiscard]] bool beyond(net::peer_id id, std::uint64_t turn) const;
  CAUSEWAY_DECL [[nodiscard]] bool anybody_beyond(std::uint64_t turn) const;
  CAUSEWAY_DECL [[nodiscard]] bool anybody_beyond(std::uint32_t stage, std::uint64_t turn) const;
  /// Beyond it, or with the exchange committed that it is for: after the last one of a run comes no turn.
  CAUSEWAY_DECL [[nodiscard]] bool anybody_through(std::uint64_t turn) const;

  struct coordinator_choice {
    net::peer_id id = 0;
    std::uint32_t term = 0;
  };
  /// Who says that it coordinates, with the highest term; of two with the same, the one with the lower id. `self`: this
  /// peer's own claim, term 0 if it has none.
  CAUSEWAY_DECL [[nodiscard]] coordinator_choice coordinator(std::uint32_t own_term) const;
  /// Whether this peer, which serves the first stage, comes before all others that could coordinate.
  CAUSEWAY_DECL [[nodiscard]] bool first_in_line() const;

  [[nodiscard]] std::map<net::peer_id, swarm_neighbour>& peers() noexcept { return peers_; }
  [[nodiscard]] const std::map<net::peer_id, swarm_neighbour>& peers() const noexcept { return peers_; }
  CAUSEWAY_DECL [[nodiscard]] net::peer_id at(net::peer_index link) const;
  CAUSEWAY_DECL [[nodiscard]] std::optional<net::peer_index> link_to(net::peer_id id) const;
  /// The highest that was heard of.
  [[nodiscard]] std::uint32_t term() const noexcept { return term_; }
  void term(std::uint32_t t) noexcept { term_ = std::max(term_, t); }

 private:
  CAUSEWAY_DECL static bool serves(const swarm_neighbour& p);
  CAUSEWAY_DECL static bool beyond(const swarm_neighbour& p, std::uint64_t turn);

  using sums = std::map<std::uint64_t, swarm_wire::stage_sum>;  // by step
  CAUSEWAY_DECL static void remember(sums& known, const swarm_wire::stage_sum& sum);
  CAUSEWAY_DECL [[nodiscard]] static std::optional<swarm_wire::stage_sum> of(const sums& known, std::uint64_t step);

  CAUSEWAY_DECL static bool says_the_same(const swarm_wire::status& a, const swarm_wire::status& b);

  static constexpr std::size_t most_known = 4096;

  net::peer_id self_;
  std::map<net::peer_id, swarm_neighbour> peers_;
  std::map<net::peer_index, net::peer_id> by_link_;
  std::vector<sums> sums_;  // by stage
  sums decided_;            // of all together
  std::uint32_t term_ = 0;
  std::uint64_t changes_ = 0;
  net::peer_id last_of_few_ = 0;
};

}}}  // namespace causeway::CAUSEWAY_ABI::parallel

#ifndef CAUSEWAY_COMPILED
#include <causeway/parallel/swarm/impl/peer_directory.ipp>
#endif

#endif  // CAUSEWAY_PARALLEL_SWARM_PEER_DIRECTORY_HPP
