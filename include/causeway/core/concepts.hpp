// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_CORE_CONCEPTS_HPP
#define CAUSEWAY_CORE_CONCEPTS_HPP

// What <concepts> asks of a type, asked of the language instead of <type_traits>: no class is instantiated for an answer.
// std::movable instantiates some forty for each type, std::convertible_to ten for each pair: together a sixth of all that
// including the presets instantiated.

#include <causeway/config/config.hpp>

namespace causeway { inline namespace CAUSEWAY_ABI {

/// Can be moved into a new object, and into an old one.
template <class T>
concept Movable = requires(T from, T& to) {
  T(static_cast<T&&>(from));
  to = static_cast<T&&>(from);
};

/// Can be copied likewise, besides.
template <class T>
concept Copyable = Movable<T> && requires(const T& from, T& to) {
  T(from);
  to = from;
};

template <class T>
concept DefaultInitializable = requires {
  T{};
};

template <class From, class To>
concept ConvertibleTo = requires(From (&make)(), void (&take)(To)) {
  take(make());
};

}}  // namespace causeway::CAUSEWAY_ABI

#endif  // CAUSEWAY_CORE_CONCEPTS_HPP
