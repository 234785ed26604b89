// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_AXIS_PARTS_HPP
#define CAUSEWAY_AXIS_PARTS_HPP

// The axes of a communication policy. comm::rounds is given one value of each, in any order, and takes a default for those
// that are left out; this header sorts them. An axis value is small, movable, knows its own options and its own run state,
// and nothing of the other axes: what two of them must agree on is a rule in comm/rounds.hpp.

#include <causeway/config/config.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <tuple>
#include <type_traits>
#include <utility>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace axis {

/// What an axis value decides. Every one says it as `static constexpr axis::part decides`.
enum class part : std::uint8_t {
  none,
  trigger,        ///< when a fragment is exchanged
  content,        ///< what is sent
  fragments,      ///< how the parameters are cut
  group,          ///< which peers take part together
  exchange,       ///< how the mean is found: topology, codec, aggregator
  residual,       ///< what becomes of what a lossy codec left out
  participation,  ///< who contributes
  outer,          ///< what the mean does to the shared parameters
  merge_rule,     ///< when the result is waited for, and what the live parameters become
};

namespace detail {

template <class A>
concept SaysItsPart = requires {
  { A::decides } -> std::same_as<const part&>;
};

template <class A>
consteval part part_of() {
  if constexpr (SaysItsPart<A>) {
    return A::decides;
  } else {
    return part::none;
  }
}

template <part P, class... Axes>
inline constexpr std::size_t count_of = (std::size_t{0} + ... + (part_of<Axes>() == P ? 1U : 0U));

template <part P, class Default, class... Axes>
struct first_of {
  using type = Default;
};
template <part P, class Default, class A, class... Axes>
struct first_of<P, Default, A, Axes...> {
  using type = typename std::conditional_t<part_of<A>() == P, std::type_identity<A>, first_of<P, Default, Axes...>>::type;
};

}  // namespace detail

/// The type among `Axes` that decides P, else Default.
template <part P, class Default, class... Axes>
using pick = typename detail::first_of<P, Default, Axes...>::type;

/// Whether every type is an axis value, and whether none occurs twice.
template <class... Axes>
inline constexpr bool all_known = ((detail::part_of<Axes>() != part::none) && ...);
template <class... Axes>
inline constexpr bool all_different =
    ((detail::count_of<detail::part_of<Axes>(), Axes...> == 1 || detail::part_of<Axes>() == part::none) && ...);

/// The value that decides P out of `values`, else a default one.
template <part P, class Default, class... Axes>
auto take(std::tuple<Axes...>& values) {
  using wanted = pick<P, Default, Axes...>;
  if constexpr (detail::count_of<P, Axes...> == 1) {
    return std::move(std::get<wanted>(values));
  } else {
    return wanted{};
  }
}

}}}  // namespace causeway::CAUSEWAY_ABI::axis

#endif  // CAUSEWAY_AXIS_PARTS_HPP
