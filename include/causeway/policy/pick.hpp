// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_POLICY_PICK_HPP
#define CAUSEWAY_POLICY_PICK_HPP

// Sorts a pack of policies into a trainer's slots by what they are, so that users write them in any order and leave out
// what they do not care about.

#include <causeway/core/result.hpp>
#include <causeway/optim/optimizer.hpp>
#include <causeway/policy/traits.hpp>

#include <concepts>
#include <cstddef>
#include <type_traits>
#include <utility>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace detail {

enum class kind { none, inner, comm, parallel, fault };

template <class P, class Traits>
concept HasTraits = requires {
  { P::traits } -> std::same_as<const Traits&>;
};

/// Which slot a type belongs to. Only the traits count, so that a policy with a misspelt hook still reaches its slot and is
/// refused there with the hook's name.
template <class P>
consteval kind kind_of() {
  if constexpr (HasTraits<P, comm_traits>) {
    return kind::comm;
  } else if constexpr (HasTraits<P, parallel_traits>) {
    return kind::parallel;
  } else if constexpr (HasTraits<P, fault_traits>) {
    return kind::fault;
  } else if constexpr (optim::Optimizer<P>) {
    return kind::inner;
  } else {
    return kind::none;
  }
}

template <kind K, class... Ps>
inline constexpr std::size_t count_of = (std::size_t{0} + ... + (kind_of<Ps>() == K ? 1U : 0U));

/// The first type of kind K in the pack, else Default.
template <kind K, class Default, class... Ps>
struct first_of {
  using type = Default;
};
template <kind K, class Default, class P, class... Ps>
struct first_of<K, Default, P, Ps...> {
  using type = typename std::conditional_t<kind_of<P>() == K, std::type_identity<P>, first_of<K, Default, Ps...>>::type;
};

template <kind K, class Default, class... Ps>
using pick = typename first_of<K, Default, Ps...>::type;

/// The model itself. Somebody who has not looked yet whether there is one gets an error, and only that one.
template <class M>
struct given_model {
  static constexpr bool is_result = false;
  using type = M;
  static M&& take(M& model) { return std::move(model); }
};
template <class M>
struct given_model<result<M>> {
  static constexpr bool is_result = true;
  using type = M;
  static M&& take(result<M>& model) { return std::move(*model); }
};

/// Whether what is given as a `T` can become a value: it moves, or it can be copied.
template <class T>
inline constexpr bool can_be_given = !std::is_lvalue_reference_v<T> || std::is_copy_constructible_v<std::remove_cvref_t<T>>;

/// That value. What cannot be given is moved all the same, so that the rule about it is the only error.
template <class T>
std::remove_cvref_t<T> given(std::remove_reference_t<T>& x) {
  if constexpr (std::is_lvalue_reference_v<T> && can_be_given<T>) {
    return x;
  } else {
    return std::move(const_cast<std::remove_cvref_t<T>&>(x));
  }
}

/// `M`, after checking the pack: a misspelt policy would otherwise be dropped silently in favour of a default.
template <class M, class... Ps>
struct claim {
  static_assert(
      ((kind_of<Ps>() != kind::none) && ...),
      "causeway-P0: a type given to the trainer is neither a policy nor an optimizer: it has no `traits` of a known "
      "kind. docs/reference/rules.md#p0");
  static_assert(count_of<kind::inner, Ps...> <= 1 && count_of<kind::comm, Ps...> <= 1 &&
                    count_of<kind::parallel, Ps...> <= 1 && count_of<kind::fault, Ps...> <= 1,
                "causeway-P4: two policies of one kind were given to a trainer; keep one. docs/reference/rules.md#p4");
  using type = M;
};

template <class M, class... Ps>
using claimed = typename claim<M, Ps...>::type;

/// The first policy of kind K among those given to make_trainer, else a Default.
template <kind K, class Default>
Default take() {
  return Default{};
}
template <kind K, class Default, class P, class... Ps>
auto take(std::remove_reference_t<P>& first, std::remove_reference_t<Ps>&... rest) {
  if constexpr (kind_of<std::remove_cvref_t<P>>() == K) {
    return given<P>(first);
  } else {
    return take<K, Default, Ps...>(rest...);
  }
}

}}}  // namespace causeway::CAUSEWAY_ABI::detail

#endif  // CAUSEWAY_POLICY_PICK_HPP
