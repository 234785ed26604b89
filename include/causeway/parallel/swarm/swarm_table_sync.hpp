// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PARALLEL_SWARM_SWARM_TABLE_SYNC_HPP
#define CAUSEWAY_PARALLEL_SWARM_SWARM_TABLE_SYNC_HPP

// The two ends of a swarm whose output layer is the token table: what they have for each other, and when they ask. The last
// stage sums the table's whole gradient and steps on it; the first takes the table over, bit for bit, once the last has
// committed the step. docs/design/swarm.md, "A tied table", says why it is so and not the other way round.

#include <causeway/config/config.hpp>
#include <causeway/net/fabric.hpp>
#include <causeway/parallel/swarm/swarm_messages.hpp>
#include <causeway/parallel/swarm/swarm_messenger.hpp>
#include <causeway/parallel/swarm/swarm_options.hpp>
#include <causeway/parallel/swarm/swarm_state.hpp>
#include <causeway/parallel/swarm/swarm_table_exchange.hpp>

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace parallel {

/// To be used with the fabric's lock held. Without a tied table, or with one stage, it has nothing to do.
class swarm_table_sync {
 public:
  swarm_table_sync(swarm_state& my, swarm_messenger& messenger) : my_{my}, messenger_{messenger} {}

  /// Before anything else, at both ends of such a model.
  void tie(swarm_tied_table table) { tied_ = std::move(table); }
  [[nodiscard]] bool is_tied() const noexcept { return tied_.length > 0; }

  [[nodiscard]] bool is_first_of_tied() const { return tied_.length > 0 && my_.options.stage == 0; }
  [[nodiscard]] bool is_last_of_tied() const { return tied_.length > 0 && my_.options.stage + 1 == my_.options.stages; }

  /// The table's place in buffers of this stage's parameters.
  template <class T>
  [[nodiscard]] std::span<T> table_of(std::span<T> flat) const {
    return flat.subspan(tied_.offset, tied_.length);
  }

  /// A step, or an evaluation before it.
  CAUSEWAY_DECL void begin(std::uint64_t step);

  /// These are the parameters after so many steps, committed: the last stage gives their table from now on.
  CAUSEWAY_DECL void gives_table(std::uint64_t steps, std::span<const float> parameters);

  /// The parameters are a committed state's; `adopted` as in swarm_round::committed. Whether anybody cares.
  CAUSEWAY_DECL bool holds_committed(bool adopted);

  /// What the other end has for this step is here.
  [[nodiscard]] bool other_end_is_here() const { return my_.in_training() && fetched_.has(my_.step()); }

  /// The last stage exchanges once one of its peers has the first stage's part, or the whole sum; and in order to find out
  /// that others have committed the step.
  CAUSEWAY_DECL [[nodiscard]] bool may_sum() const;

  /// What this peer of the last stage could add.
  [[nodiscard]] bool has_part() const { return is_last_of_tied() && other_end_is_here(); }
  void add_part(std::span<float> gradients) { my_.gradients.add_part(fetched_.values(), table_of(gradients)); }

  /// The first stage steps when the last has committed the step, and its table is here. The optimizer moves nothing of it
  /// then: the table is taken over as it is.
  [[nodiscard]] bool may_step() const { return !is_first_of_tied() || other_end_is_here(); }
  CAUSEWAY_DECL void leave_table_out(std::span<float> gradients) const;
  CAUSEWAY_DECL void put_table_into_parameters();

  /// After every event.
  CAUSEWAY_DECL void ask_the_other_end();
  /// In an exchange nobody has the part, and this peer is the first: it asks, whoever should have.
  CAUSEWAY_DECL void asks_itself();
  CAUSEWAY_DECL void heard(net::peer_id from, const swarm_wire::table_request& r);
  CAUSEWAY_DECL void heard(net::peer_id from, const swarm_wire::table_piece& p);
  CAUSEWAY_DECL [[nodiscard]] std::string describe() const;

  /// What comes from the other end.
  [[nodiscard]] swarm_table_fetch& fetched() noexcept { return fetched_; }

 private:
  template <class F>
  [[nodiscard]] bool any_mate(F&& f) const {
    const auto& peers = my_.directory.peers();
    return std::any_of(peers.begin(), peers.end(), [&](const auto& p) {
      return p.second.up && p.second.said && p.second.said->stage == my_.options.stage && f(*p.second.said);
    });
  }

  // One peer's asking serves its stage: the first of those who are in this turn.
  CAUSEWAY_DECL [[nodiscard]] bool first_of_its_stage() const;

  // The first stage asks when it has its own sum: it can step then, once the last stage has.
  CAUSEWAY_DECL [[nodiscard]] bool lacks_something() const;

  // Any of those who say that they have it, another one for each peer that asks.
  CAUSEWAY_DECL [[nodiscard]] net::peer_id whom_to_ask() const;
  CAUSEWAY_DECL [[nodiscard]] bool has_it(const swarm_wire::status& s) const;

  swarm_state& my_;
  swarm_messenger& messenger_;
  swarm_tied_table tied_;
  swarm_table_fetch fetched_;
  std::vector<float> given_;  // the table after `my_.committed` steps
  bool asks_whoever_is_first_ = false;
};

}}}  // namespace causeway::CAUSEWAY_ABI::parallel

#ifndef CAUSEWAY_COMPILED
#include <causeway/parallel/swarm/impl/swarm_table_sync.ipp>
#endif

#endif  // CAUSEWAY_PARALLEL_SWARM_SWARM_TABLE_SYNC_HPP
