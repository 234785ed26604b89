// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TESTS_SUPPORT_LOCAL_SEAT_HPP
#define CAUSEWAY_TESTS_SUPPORT_LOCAL_SEAT_HPP

// A peer of a swarm whose peers take local steps, and notes on which micro-batches each of them stepped on and brought to
// the exchange.

#include <causeway/comm/periodic.hpp>
#include <causeway/optim/nesterov.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "support/conformance.hpp"
#include "support/swarm_seat.hpp"

namespace support {

using causeway::parallel::swarm_wire::batch_set;

/// Of a peer, in the round that it is in: what it had stepped on after each local step, and what it offered at last.
struct local_notes {
  std::uint32_t stage = 0;
  std::vector<batch_set> after;
  batch_set offered;
};

/// By stage, of the exchange whose result was kept last: what each peer put in. And all peers' notes.
struct round_notes {
  std::map<std::uint32_t, std::vector<batch_set>> put_in;
  std::deque<local_notes> peers;  ///< one that is started again is another
  /// By one more than the step: what peers committed that all stages came to, where the policy asks them. Of all stages.
  std::map<double, std::set<std::vector<double>>> decided;
};

/// Watches a peer, and notes. For as long as the notes are there.
inline causeway::parallel::swarm_watch noting(causeway::parallel::swarm_peer& peer, round_notes& notes) {
  using namespace causeway;
  local_notes& own = notes.peers.emplace_back();
  own.stage = peer.options().stage;
  parallel::swarm_watch watch;
  watch.takes_part = [&notes, &own](std::span<const parallel::swarm_holding> all, std::size_t self,
                                    const result<parallel::swarm_part_taken>& part) {
    own.offered = all[self].done;
    if (!part || part->result_at) return;
    auto& put_in = notes.put_in[own.stage];
    put_in.clear();
    for (const auto& h : all) {
      if (h.done.count() > 0) put_in.push_back(h.done);
    }
  };
  watch.steps = [&peer, &own] {
    if (peer.options().local_steps == 0) return;
    if (peer.progress().size() == static_cast<std::uint32_t>(peer.options().micro_batches)) own.after.clear();
    own.after.push_back(peer.progress());
  };
  watch.commits = [&peer, &notes] {
    const auto decided = peer.decided();  // without the norm, which each stage rounds as it likes
    if (!decided || decided->asked.empty()) return;
    std::vector<double> last{static_cast<double>(decided->step) + 1};
    last.insert(last.end(), decided->asked.begin(), decided->asked.end());
    notes.decided[last[0]].insert(last);
  };
  return watch;
}

/// Checkpoints after a step, by peer: written by those that take it, read by those that begin.
struct step_checkpoints {
  std::uint64_t after = 0;
  std::map<std::uint64_t, saved_state> by_peer;
};

/// Nesterov outside.
struct nesterov_rounds {
  static auto make(const swarm_schedule& s) {
    const causeway::comm::periodic_options every{.local_steps = s.local_steps, .outer_learning_rate = s.outer_rate};
    return causeway::comm::periodic<>{every, causeway::optim::nesterov{{.momentum = s.momentum}}};
  }
};

/// For swarm_world: local steps of `Inner`, and rounds that `Rounds` makes. A world runs in one thread.
template <class Inner, class Rounds = nesterov_rounds>
struct local_steps {
  static inline round_notes* notes = nullptr;
  static inline step_checkpoints* checkpoints = nullptr;

  template <class Codec, class Router, class Model, class Body>
  static causeway::result<void> take(swarm_seat seat, Router router, Model model, const swarm_schedule& s, Body&& body) {
    using namespace causeway;
    if (notes != nullptr) {
      seat.made = [](parallel::swarm_peer& peer) { peer.watch(noting(peer, *notes)); };
    }
    const std::uint64_t id = seat.swarm->id();
    const auto make = [&](std::shared_ptr<parallel::swarm_peer> round, environment env, const trainer_options& to,
                          const auto& fault) {
      auto trainer = make_trainer(std::move(model), std::move(env), to, Rounds::make(s), Inner{}, fault,
                                  parallel::swarm<Codec>{std::move(round)});
      if (checkpoints != nullptr && checkpoints->by_peer.contains(id)) load(trainer, checkpoints->by_peer[id]);
      return trainer;
    };
    const auto watched = [&](auto& trainer, auto& peer) {
      trainer.observe([&trainer, id](const step_report& r) {
        if (checkpoints != nullptr && r.step == checkpoints->after) checkpoints->by_peer[id] = support::save(trainer);
      });
      return body(trainer, peer);
    };
    return take_seat_with(std::move(seat), std::move(router), s, make, watched);
  }
};

}  // namespace support

#endif  // CAUSEWAY_TESTS_SUPPORT_LOCAL_SEAT_HPP
