// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_AXIS_ARRIVALS_HPP
#define CAUSEWAY_AXIS_ARRIVALS_HPP

// What a hub does with pushes that arrive whenever they like (comm::async_parameter_server): how long it collects them, and
// whether it applies them one by one or makes one of them.

#include <causeway/axis/parts.hpp>
#include <causeway/core/concepts.hpp>
#include <causeway/core/error.hpp>
#include <causeway/core/result.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace axis {

/// The pushes of one fragment that a hub has not applied yet; there is at least one.
struct waiting_pushes {
  std::span<const double> arrived;  ///< seconds after the first, ascending; so the first is 0
  std::size_t expected = 1;         ///< peers that may still push, or have
  double slack = 0;                 ///< seconds: τ·t_step − t_sync, the least of those who have pushed
};

/// `closes_after(waiting_pushes)`: seconds after the first arrival at which the pushes are applied; infinite while too few
/// are there. When all expected peers are there, nobody is waited for, whatever it says. `merges`: they become one,
/// weighted by samples times samples a step; else they are applied in the order in which they came. `most_ahead`: pushes of
/// a fragment that a peer may have made more than the slowest one; who has made so many is answered when the slowest has
/// caught up (Gaia's mirror clock, Hsieh et al. 2017, section 4.3: an update of clock c is known everywhere before clock c
/// + DS). Peers that are done or lost hold nobody up.
template <class A>
concept Arrivals = A::decides == part::participation&& requires(const A& a, const waiting_pushes& g) {
  { a.most_ahead } -> ConvertibleTo<std::uint32_t>;
  { a.check(std::uint32_t{}) } -> std::same_as<result<void>>;
  { a.closes_after(g) } -> std::same_as<double>;
  {bool{A::merges}};
};

/// For `most_ahead`: peers may be as far apart as they like.
inline constexpr std::uint32_t no_bound = std::numeric_limits<std::uint32_t>::max();

/// Each push moves the shared parameters as soon as it is there. With a grace period the hub first waits for others, and
/// then applies them all before it answers the next (Async Local-SGD, Liu et al. 2024).
struct one_by_one {
  static constexpr part decides = part::participation;
  static constexpr bool merges = false;

  double grace_seconds = 0;
  std::uint32_t most_ahead = no_bound;  ///< at least 1

  CAUSEWAY_DECL [[nodiscard]] result<void> check(std::uint32_t) const;
  [[nodiscard]] double closes_after(const waiting_pushes&) const noexcept { return grace_seconds; }
};

/// Waits for K pushes, then as long as overlap leaves time for free: clamp(γ·(τ·t_step − t_quorum − t_sync), 0, cap), where
/// t_quorum is how long the K took; what is there by then is merged (Decoupled DiLoCo, 2026). The outer step takes what was
/// merged by its share of all peers' samples: without that, n pushes of one peer each would move the parameters n times as
/// far as one round of all. The published descriptions do not say how; this is derived, and with K = the number of peers it
/// is a synchronous round. When fewer peers than K are left, those are enough.
struct quorum {
  static constexpr part decides = part::participation;
  static constexpr bool merges = true;

  std::uint32_t least = 1;  ///< K
  double gamma = 0.5;
  double cap_seconds = 60;
  std::uint32_t most_ahead = no_bound;  ///< at least 1
  /// Samples of an inner step, at most, at any peer: a push that claims more is refused, and none counts for more than the
  /// samples of the longest round. 0: what a push says that it has trained on is believed.
  std::uint32_t most_batch = 0;

  CAUSEWAY_DECL [[nodiscard]] result<void> check(std::uint32_t peers) const;
  CAUSEWAY_DECL [[nodiscard]] double closes_after(const waiting_pushes& g) const noexcept;
};

static_assert(Arrivals<one_by_one> && Arrivals<quorum>);

}}}  // namespace causeway::CAUSEWAY_ABI::axis

#ifndef CAUSEWAY_COMPILED
#include <causeway/axis/impl/arrivals.ipp>
#endif

#endif  // CAUSEWAY_AXIS_ARRIVALS_HPP
