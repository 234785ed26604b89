// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_POLICY_EXECUTOR_HPP
#define CAUSEWAY_POLICY_EXECUTOR_HPP

// What runs a parallelism in a trainer. A program names a parallelism, how peers exchange and what becomes of lost ones,
// each once; which class computes the steps follows from the three.

#include <causeway/config/config.hpp>
#include <causeway/core/result.hpp>

#include <utility>

namespace causeway { inline namespace CAUSEWAY_ABI {

/// A parallelism runs itself, unless this is specialised for it: train/pipeline_executors.hpp and
/// train/swarm_executors.hpp do so for fault::quorum.
///
/// `type`: a parallelism policy, which the trainer holds and the rules are asked about.
/// `check`: what is wrong with the values that were given; the trainer's start says so.
/// `make`: of the parallelism as it was given. May change `env`, and move from `fault` what the executor is to have.
template <class Parallel, class Comm, class Fault>
struct executor {
  using type = Parallel;
  static result<void> check(const Parallel&, const Fault&) { return {}; }
  static type make(Parallel&& p, Fault&, auto& /*env*/) { return std::move(p); }
};

template <class Parallel, class Comm, class Fault>
using executor_of = typename executor<Parallel, Comm, Fault>::type;

namespace detail {

/// Whether a peer has one `Policy` for each range of blocks whose gradients it exchanges.
template <class Policy, class Parallel>
concept InSegments = requires {
  requires Policy::traits.rows_in_parts&& Policy::traits.exchanges_gradients;
  requires Parallel::traits.rows_in_parts&& Parallel::traits.shares_gradient;
};

/// What a trainer has in the place of `Policy`.
template <class Policy, class Parallel>
struct policy_for {
  using type = Policy;
};
template <class Policy, class Parallel>
  requires InSegments<Policy, Parallel>
struct policy_for<Policy, Parallel>;  // in train/by_segment.hpp, which comes with train/pipeline_group.hpp

}  // namespace detail

}}  // namespace causeway::CAUSEWAY_ABI

#endif  // CAUSEWAY_POLICY_EXECUTOR_HPP
