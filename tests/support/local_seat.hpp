// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TESTS_SUPPORT_LOCAL_SEAT_HPP
#define CAUSEWAY_TESTS_SUPPORT_LOCAL_SEAT_HPP

// A peer of a swarm whose peers take local steps.

#include <causeway/comm/periodic.hpp>
#include <causeway/optim/nesterov.hpp>
#include <causeway/parallel/local_swarm.hpp>

#include <utility>

#include "support/swarm_seat.hpp"

namespace support {

/// For swarm_world: local steps of `Inner`, and Nesterov outside.
template <class Inner>
struct local_steps {
  template <class Codec, class Router, class Model, class Body>
  static causeway::result<void> take(swarm_seat seat, Router router, Model model, const swarm_schedule& s, Body&& body) {
    using namespace causeway;
    const auto make = [&](auto peer, environment env, const trainer_options& to) {
      const comm::periodic_options rounds{.local_steps = s.local_steps, .outer_learning_rate = s.outer_rate};
      return make_trainer(std::move(model), std::move(env), to,
                          comm::periodic<>{rounds, optim::nesterov{{.momentum = s.momentum}}}, Inner{}, fault::quorum{},
                          parallel::local_swarm<Codec>{std::move(peer)});
    };
    return take_seat_with(std::move(seat), std::move(router), s, make, std::forward<Body>(body));
  }
};

}  // namespace support

#endif  // CAUSEWAY_TESTS_SUPPORT_LOCAL_SEAT_HPP
