// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_COMM_ARRIVAL_RULES_HPP
#define CAUSEWAY_COMM_ARRIVAL_RULES_HPP

// Which axes comm::async_parameter_server takes, and one readable error for each mix that it does not.
// docs/reference/rules.md explains the ids; tests/compile_fail holds the messages to them.

#include <causeway/axis/arrivals.hpp>
#include <causeway/axis/content.hpp>
#include <causeway/axis/every.hpp>
#include <causeway/axis/exchange.hpp>
#include <causeway/axis/fragments.hpp>
#include <causeway/axis/hubs.hpp>
#include <causeway/axis/merge_rule.hpp>
#include <causeway/axis/outer.hpp>
#include <causeway/axis/parts.hpp>
#include <causeway/axis/residual.hpp>
#include <causeway/optim/delayed_nesterov.hpp>

#include <type_traits>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace comm {

namespace detail {

/// T where `Fits`, so that a type that does not makes no errors besides the one that names it.
template <bool Fits, class T, class Default>
using fitting = std::conditional_t<Fits, T, Default>;

template <class Trigger>
inline constexpr bool gives_batches = (requires { Trigger::weighs; });

template <class P>
inline constexpr bool is_push = requires {
  typename P::codec_type;
  P::is_push;
};

}  // namespace detail

/// The rules for one mix, and its axes: derive from it.
template <class... Axes>
class arrival_rules {
  template <axis::part P, class Default>
  using given = axis::pick<P, Default, Axes...>;
  using given_hubs = given<axis::part::group, axis::star>;
  using given_arrivals = given<axis::part::participation, axis::one_by_one>;
  using given_push = given<axis::part::exchange, axis::push<>>;

  static constexpr bool a12 = axis::Hubs<given_hubs> && axis::Arrivals<given_arrivals> && detail::is_push<given_push>;

 public:
  using trigger_type = given<axis::part::trigger, axis::every>;
  using fragments_type = given<axis::part::fragments, axis::whole>;
  using residual_type = given<axis::part::residual, axis::no_residual>;
  using outer_type = given<axis::part::outer, axis::outer<optim::delayed_nesterov>>;
  using merge_rule_type = given<axis::part::merge_rule, axis::blocking>;
  using hubs_type = detail::fitting<a12, given_hubs, axis::star>;
  using arrivals_type = detail::fitting<a12, given_arrivals, axis::one_by_one>;
  using push_type = detail::fitting<a12, given_push, axis::push<>>;

  /// The value of an axis, out of those that were given.
  template <axis::part P, class T>
  static T taken(auto& values) {
    if constexpr (std::is_same_v<axis::pick<P, T, Axes...>, T>) {
      return axis::take<P, T>(values);
    } else {
      return T{};
    }
  }

 private:
  static constexpr bool a13 = std::is_same_v<given<axis::part::content, axis::pseudo_gradient>, axis::pseudo_gradient> &&
                              merge_rule_type::waits != axis::waiting::a_round &&
                              residual_type::keeps != axis::keeping::in_parameters && !outer_type::wants_mean_shared &&
                              !trigger_type::watches_movement && !detail::gives_batches<trigger_type> &&
                              !push_type::codec_type::traits.shared_support;

  static_assert(axis::all_known<Axes...>,
                "causeway-A0: a type given to comm::async_parameter_server is no axis value: it has no `decides`. "
                "docs/reference/rules.md#a0");
  static_assert(axis::all_different<Axes...>,
                "causeway-A1: two values for one axis were given to comm::async_parameter_server; keep one. "
                "docs/reference/rules.md#a1");
  static_assert(
      (axis::has_codecs<Axes>() && ...),
      "causeway-P8: axis::push is given a codec that is none: it lacks a member of compress::Codec. Codecs are in "
      "compress/; a choice of entries, as compress::top_k, goes into compress::sparse. "
      "docs/reference/rules.md#p8");
  static_assert(
      a12,
      "causeway-A12: a group, topology or participation of comm::rounds was given to comm::async_parameter_server. Use "
      "axis::star or axis::regions, axis::push, axis::one_by_one or axis::quorum. docs/reference/rules.md#a12");
  static_assert(
      a13,
      "causeway-A13: a push is an exchange of its own: there is no round that a content, merge rule, residual, mask, "
      "gossip step or growing trigger could share with other peers. docs/reference/rules.md#a13");
};

}}}  // namespace causeway::CAUSEWAY_ABI::comm

#endif  // CAUSEWAY_COMM_ARRIVAL_RULES_HPP
