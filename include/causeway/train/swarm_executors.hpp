// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TRAIN_SWARM_EXECUTORS_HPP
#define CAUSEWAY_TRAIN_SWARM_EXECUTORS_HPP

// What runs swarms. A program says parallel::swarm and fault::quorum, and how peers exchange; which class computes the
// steps follows from that.

#include <causeway/config/config.hpp>
#include <causeway/core/result.hpp>
#include <causeway/fault/quorum.hpp>
#include <causeway/parallel/local_swarm.hpp>
#include <causeway/parallel/swarm.hpp>
#include <causeway/policy/executor.hpp>
#include <causeway/train/run_group.hpp>
#include <causeway/train/swarm_group.hpp>

#include <memory>
#include <type_traits>
#include <utility>

namespace causeway { inline namespace CAUSEWAY_ABI {

namespace detail {

template <class Peer>
std::shared_ptr<run_group> group_of_stage(std::shared_ptr<run_group> stage, const std::shared_ptr<Peer>& peer,
                                          const fault::quorum_options& o) {
  using group = basic_swarm_group<Peer>;
  if (!o.storage) return std::make_shared<group>(std::move(stage), peer);
  return std::make_shared<group>(std::move(stage), peer, *o.storage, o.folder);
}

}  // namespace detail

/// Gradients of every step are those of parallel::swarm itself; a policy of local steps, or of gradients that gather over
/// several, is that of parallel::local_swarm. `environment::group` is a member of the peers of this one's stage, whose
/// options have no quota, no budget, `enters_afresh` and a `called_away` that asks the peer. quorum_options: `folder` is
/// this stage's.
template <class Codec, class Comm, class Recovery>
struct executor<parallel::swarm<Codec>, Comm, fault::quorum<Recovery>> {
  using parallel_type = parallel::swarm<Codec>;
  static constexpr bool sums = Comm::traits.exchanges_gradients && !Comm::traits.allows_late_steps;
  using type = std::conditional_t<sums, parallel_type, parallel::local_swarm<Codec>>;

  static result<void> check(const parallel_type&, const fault::quorum<Recovery>&) { return {}; }
  static type make(parallel_type&& p, fault::quorum<Recovery>& f, auto& env) {
    if (p.peer() && env.group && !env.group->exchanges_at_once())
      env.group = detail::group_of_stage(env.group, p.peer(), f.options);
    return type{p.peer(), std::move(p.codec())};
  }
};

}}  // namespace causeway::CAUSEWAY_ABI

#endif  // CAUSEWAY_TRAIN_SWARM_EXECUTORS_HPP
