// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_EXAMPLES_ELASTIC_PLACE_HPP
#define CAUSEWAY_EXAMPLES_ELASTIC_PLACE_HPP

// Where an elastic session runs: in a process of its own, or in a simulated one.

#include <causeway/core/clock.hpp>
#include <causeway/core/result.hpp>
#include <causeway/io/storage.hpp>
#include <causeway/net/fabric.hpp>
#include <causeway/train/member.hpp>
#include <causeway/train/observer.hpp>
#include <causeway/train/pipeline_group.hpp>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "metrics.hpp"
#include "policies.hpp"
#include "session_input.hpp"
#include "settings.hpp"

namespace app {

class noted_round;

/// What a session tells. On the trainer's thread.
class session_events {
 public:
  virtual ~session_events() = default;
  virtual void joined(const round_news&) {}
  virtual void stepped(const causeway::step_report&) {}
  virtual void committed(const round_news&) {}
  virtual void finished(const session_summary&) {}
};

struct elastic_place {
  static constexpr double forward_only = 1.0 / 3;  ///< part of the cost of a training step

  std::shared_ptr<causeway::net::fabric> fabric{};  ///< of `group`
  std::shared_ptr<causeway::net::fabric> across{};  ///< to all stages of a swarm; else none
  std::shared_ptr<causeway::member> group{};
  std::shared_ptr<causeway::pipeline_group> pipelines{};  ///< over `group`, in pipelines; else none
  std::shared_ptr<noted_round> swarm{};                   ///< over `group`, which is that of its stage; else none
  causeway::io::any_storage storage;
  std::string folder{};  ///< of the peer, on the storage
  session_events* events = nullptr;
  /// Called after computing on so many tokens; `part` of a step's cost each. A simulator lets time pass.
  std::function<void(std::int64_t tokens, double part)> computed = [](std::int64_t, double) {};
  /// Whether this peer takes its turns at validating.
  std::function<bool()> validates = [] { return true; };
  /// Blocks until nobody needs what this peer holds.
  std::function<causeway::result<void>()> linger = [] { return causeway::result<void>{}; };
  [[nodiscard]] std::uint64_t bytes_sent() const {
    return fabric->stats().bytes_sent + (across ? across->stats().bytes_sent : 0);
  }
  [[nodiscard]] std::uint64_t bytes_received() const {
    return fabric->stats().bytes_received + (across ? across->stats().bytes_received : 0);
  }
  /// Names of points that this peer passes.
  std::function<void(std::string_view)> passing = [](std::string_view) {};
  /// For tests: whether this peer's parameters are to be spoilt before its next step, which begins in `round`.
  std::function<bool(std::uint64_t round)> spoils = [](std::uint64_t) { return false; };
};

/// Samples that a member of the run has at hand: those of the policy's rounds, or more than those where fragments take
/// turns. Peers with stages have the same ones, by step: 0.
inline std::uint64_t quota_of(const settings& s) { return has_stages(s) ? 0 : samples_at_hand(s); }

/// Of all peers that hold the model, each with one.
inline std::uint64_t samples_of_step(const settings& s) { return static_cast<std::uint64_t>(s.train.batch) * s.net.peers; }

/// Samples of the whole run; 0: they are not handed out.
inline std::uint64_t budget_of(const settings& s) { return has_stages(s) ? 0 : s.train.steps * samples_of_step(s); }

/// What the settings say of the membership.
inline causeway::member_options member_options_of(const settings& s, std::uint64_t run_id) {
  causeway::member_options o;
  o.protocol.run = run_id;
  o.protocol.expected = s.net.peers;
  o.protocol.min_peers = s.fault.min_peers;
  o.protocol.quota = quota_of(s);
  o.protocol.budget = budget_of(s);
  o.enters_afresh = has_stages(s);
  o.store_every = s.fault.store_every;
  o.patience = std::chrono::seconds{s.net.patience};
  return o;
}

}  // namespace app

#endif  // CAUSEWAY_EXAMPLES_ELASTIC_PLACE_HPP
