// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_AXIS_EVERY_HPP
#define CAUSEWAY_AXIS_EVERY_HPP

// Triggers by counting inner steps. A trigger says for each fragment how many inner steps lie before its first exchange and
// between two later ones; comm::rounds counts them.

#include <causeway/axis/parts.hpp>
#include <causeway/core/error.hpp>
#include <causeway/core/result.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace axis {

/// What an exchange showed, for triggers that adapt.
struct exchange_report {
  std::size_t fragment = 0;
  std::uint32_t steps = 0;     ///< inner steps since the fragment's exchange before
  std::uint64_t samples = 0;   ///< that this peer trained on in them
  double movement = 0;         ///< |mean| / |shared parameters| of the whole model, where the trigger asks for it
  double compute_seconds = 0;  ///< that these steps took, without waiting for others
};

/// Requirements. `count` is the number of fragments.
/// - `check(count)`: errc::invalid_argument for options that cannot work;
/// - `first(f, count)`, `next(f, count)`: inner steps before the first and between later exchanges of fragment f, >= 1;
/// - `exchanged(ctx, report)`: called after every exchange; may talk to the other peers, who do the same. Where peers come
/// and go an exchange is over then, and nobody talks: `tell(ctx, report)`, if there is one, is called as its last part;
/// - `shared(ar)`, if there is one: what of it all peers hold alike, where that is not all that `serialize` has;
/// - `watches_movement`: report.movement is wanted, which costs two passes over the fragment, and where a model is in
/// stages
///   16 bytes to each other one.
template <class T>
concept Trigger = T::decides == part::trigger&& requires(T& t, const T& c, std::size_t f) {
  { c.check(f) } -> std::same_as<result<void>>;
  { c.first(f, f) } -> std::same_as<std::uint32_t>;
  { c.next(f, f) } -> std::same_as<std::uint32_t>;
  {bool{T::watches_movement}};
};

namespace detail {

CAUSEWAY_DECL result<void> check_steps(std::uint32_t steps, const char* who);

}  // namespace detail

/// Every fragment after H inner steps, all at the same time (local SGD, DiLoCo; H = 1: every step).
struct every {
  static constexpr part decides = part::trigger;
  static constexpr bool watches_movement = false;

  std::uint32_t local_steps = 500;  ///< H

  [[nodiscard]] result<void> check(std::size_t) const { return detail::check_steps(local_steps, "every"); }
  [[nodiscard]] std::uint32_t first(std::size_t, std::size_t) const noexcept { return local_steps; }
  [[nodiscard]] std::uint32_t next(std::size_t, std::size_t) const noexcept { return local_steps; }
  result<void> exchanged(auto&, const exchange_report&) { return {}; }
  void serialize(auto&) {}
};

/// Every fragment after H inner steps, one after another: fragment f of P for the first time after ⌈(f+1)·H/P⌉ steps, so
/// that the peak rate falls by P (Streaming DiLoCo, Douillard et al. 2025, section 2.1).
struct staggered {
  static constexpr part decides = part::trigger;
  static constexpr bool watches_movement = false;

  std::uint32_t local_steps = 100;  ///< H

  CAUSEWAY_DECL [[nodiscard]] result<void> check(std::size_t count) const;
  CAUSEWAY_DECL [[nodiscard]] std::uint32_t first(std::size_t f, std::size_t count) const noexcept;
  [[nodiscard]] std::uint32_t next(std::size_t, std::size_t) const noexcept { return local_steps; }
  result<void> exchanged(auto&, const exchange_report&) { return {}; }
  void serialize(auto&) {}
};

/// A period for every state tensor, all fragments of it, where several are exchanged: they change at different rates
/// (DES-LOC: parameters every K steps, first moments every 3K, second moments every 6K). Where it is one tensor, a period
/// for every fragment. The last period holds for all beyond the list.
class periods {
 public:
  static constexpr part decides = part::trigger;
  static constexpr bool watches_movement = false;
  static constexpr bool by_tensor = true;

  CAUSEWAY_DECL explicit periods(std::vector<std::uint32_t> steps = {32, 96, 192});

  CAUSEWAY_DECL [[nodiscard]] result<void> check(std::size_t) const;
  CAUSEWAY_DECL [[nodiscard]] std::uint32_t first(std::size_t f, std::size_t) const noexcept;
  [[nodiscard]] std::uint32_t next(std::size_t f, std::size_t count) const noexcept { return first(f, count); }
  result<void> exchanged(auto&, const exchange_report&) { return {}; }
  void serialize(auto&) {}

 private:
  std::vector<std::uint32_t> steps_;
};

static_assert(Trigger<every> && Trigger<staggered> && Trigger<periods>);

}}}  // namespace causeway::CAUSEWAY_ABI::axis

#ifndef CAUSEWAY_COMPILED
#include <causeway/axis/impl/every.ipp>
#endif

#endif  // CAUSEWAY_AXIS_EVERY_HPP
