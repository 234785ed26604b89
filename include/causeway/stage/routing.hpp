// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_STAGE_ROUTING_HPP
#define CAUSEWAY_STAGE_ROUTING_HPP

// Which peer of each stage a micro-batch goes through, where several peers serve every stage. What is known of the peers is
// in a roster; a router is a value that chooses from it. Randomness comes from seeds alone: the same events in the same
// order give the same paths.

#include <causeway/config/config.hpp>
#include <causeway/core/concepts.hpp>
#include <causeway/net/fabric.hpp>

#include <concepts>
#include <cstdint>
#include <map>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace stage { namespace routing {

/// Names no peer: the micro-batch leaves this stage out, or nobody serves it.
inline constexpr net::peer_id nobody = 0;

/// One peer for every stage.
using path = std::vector<net::peer_id>;

/// A peer that serves a stage.
struct server {
  net::peer_id id = nobody;
  double seconds = 0;   ///< expected for one micro-batch, forward and backward; 0: not known yet
  bool banned = false;  ///< it failed since it was announced last
};

/// Who serves what, and how quickly, as far as the one who routes knows. Copyable; no thread safety. Peers of a stage are
/// in ascending order of their ids, whatever the order in which they came.
class roster {
 public:
  /// `smoothing`: weight of the newest measurement in the moving average of a peer's seconds.
  CAUSEWAY_DECL explicit roster(std::uint32_t stages = 1, double smoothing = 0.3);

  [[nodiscard]] std::uint32_t stages() const noexcept { return static_cast<std::uint32_t>(stages_.size()); }
  [[nodiscard]] std::span<const server> at(std::uint32_t stage) const { return stages_[stage]; }

  /// The peer says that it serves `stage`: a ban ends, and it leaves the stage that it served before.
  CAUSEWAY_DECL void announced(net::peer_id id, std::uint32_t stage);

  CAUSEWAY_DECL void gone(net::peer_id id);

  /// It is not chosen before it has been announced again.
  CAUSEWAY_DECL void ban(net::peer_id id);

  /// A micro-batch took it so long.
  CAUSEWAY_DECL void measured(net::peer_id id, double seconds);

  /// A boundary tensor takes so many seconds between the two, whichever way. 0 where nothing was measured.
  CAUSEWAY_DECL void link(net::peer_id a, net::peer_id b, double seconds);
  CAUSEWAY_DECL [[nodiscard]] double link(net::peer_id a, net::peer_id b) const;

  /// Those that may be chosen.
  CAUSEWAY_DECL [[nodiscard]] std::vector<server> usable(std::uint32_t stage) const;

  /// Of a peer, or the mean of its stage's known ones while it has shown nothing; 1 where nobody has.
  CAUSEWAY_DECL [[nodiscard]] double expected_seconds(std::uint32_t stage, net::peer_id id) const;

 private:
  static bool before(const server& s, net::peer_id id) noexcept { return s.id < id; }
  CAUSEWAY_DECL static std::pair<net::peer_id, net::peer_id> ordered(net::peer_id a, net::peer_id b);

  CAUSEWAY_DECL void erase(std::uint32_t stage, net::peer_id id);
  CAUSEWAY_DECL [[nodiscard]] server* find(net::peer_id id);

  std::vector<std::vector<server>> stages_;
  std::map<std::pair<net::peer_id, net::peer_id>, double> delays_;
  double smoothing_;
};

/// The micro-batches of a step.
struct step_size {
  std::uint64_t step = 0;
  std::uint32_t micro_batches = 1;
  std::uint32_t stages = 1;
};

/// - `begin(size, roster)`: a step begins; called again when the peers have changed.
/// - `choose(roster, stage, micro_batch)`: a peer of that stage that is not banned, or `nobody` if there is none.
/// - `runs(size, stage, micro_batch)`: whether the micro-batch passes the stage at all. A function of its arguments and the
///   router's options alone, so that all peers know it. The first and the last stage always run.
template <class R>
concept Router = Movable<R> && DefaultInitializable<R> &&
    requires(R& r, const R& fixed, const roster& known, const step_size& size, std::uint32_t n) {
  { R::name } -> ConvertibleTo<std::string_view>;
  r.begin(size, known);
  { r.choose(known, n, n) } -> std::same_as<net::peer_id>;
  { fixed.runs(size, n, n) } -> std::same_as<bool>;
};

}}}}  // namespace causeway::CAUSEWAY_ABI::stage::routing

#ifndef CAUSEWAY_COMPILED
#include <causeway/stage/impl/routing.ipp>
#endif

#endif  // CAUSEWAY_STAGE_ROUTING_HPP
