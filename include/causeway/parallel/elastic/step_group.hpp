// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PARALLEL_ELASTIC_STEP_GROUP_HPP
#define CAUSEWAY_PARALLEL_ELASTIC_STEP_GROUP_HPP

// What elastic pipelines ask of the membership of all their peers: who takes part in an attempt, and whether the run has
// taken the step that came of it. train/pipeline_group.hpp makes one.

#include <causeway/config/config.hpp>
#include <causeway/core/clock.hpp>
#include <causeway/core/result.hpp>
#include <causeway/net/transport.hpp>
#include <causeway/nn/model_part.hpp>
#include <causeway/stage/run_history.hpp>
#include <causeway/tensor/parameters.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace parallel {

/// What all peers hold alike. Parameters are not among it: with the norm, everybody whose gradient is complete makes the
/// same step from them.
struct step_record {
  std::uint64_t step = 0;   ///< steps that the run has taken
  std::uint64_t state = 0;  ///< names the parameters after them
  double norm = 0;          ///< of the last step's gradient, over the whole model
  stage::run_history history{};
  double loss = 0;            ///< of the last step, summed over the tokens of the global batch
  std::uint64_t updates = 0;  ///< of the parameters: fewer than steps, where gradients are gathered over several

  friend bool operator==(const step_record&, const step_record&) = default;
};

/// Peers that try a step together.
struct step_attempt {
  net::any_transport* transport = nullptr;
  std::uint64_t round = 0;
  std::uint64_t parent = 0;
  time_point deadline = no_deadline;
  std::uint32_t attempt = 0;  ///< another one for every attempt at a round
};

/// Who exchanges the row of one block, where peers hold different ones: places in exchange_entry::holders, rising, and how
/// much each has in its mean. 0: it keeps the block without computing it, and only takes the mean.
struct row_holders {
  std::vector<net::peer_index> members{};
  std::vector<double> shares{};

  /// Of a member's row in a mean over all of them, each of which counts once; 0: of who is none.
  [[nodiscard]] float weight_of(net::peer_index member) const {
    for (std::size_t i = 0; i < members.size(); ++i) {
      if (members[i] == member) return static_cast<float>(shares[i] * static_cast<double>(members.size()));
    }
    return 0;
  }
};

/// An exchange of rounds, for the communication policy.
struct exchange_entry {
  step_attempt attempt{};
  std::vector<net::peer_index> holders{};  ///< of the same blocks: those of the attempt who exchange, this peer among them
  std::vector<double> shares{};            ///< of each of them, in what they exchange
  std::vector<std::uint64_t> names{};      ///< of each of them: its identity
  std::vector<std::uint32_t> paths{};      ///< of the pipelines that exchange, where they have paths
  std::vector<row_holders> blocks{};       ///< of each block, and of a table of both ends, where rows are of single ones
  std::vector<std::uint32_t> replicas{};   ///< likewise: that each of the holders is in, of those that exchange
  /// The run has taken the round, and this peer has its mean: nothing is exchanged any more.
  std::span<const float> known{};
  bool kept = false;        ///< the same: it is what the policy received last. `known` is empty where that was several rows
  bool last = false;        ///< the run ends with it
  std::size_t segment = 0;  ///< its number among those of this peer, where it exchanges several
};

/// What pipelines do for the exchange of a round, or of a step's gradient.
struct exchange_hooks {
  /// An entry without an attempt: the policy has nothing to exchange.
  std::function<result<exchange_entry>()> enter{};
  /// The mean is here. Success: the run has taken the round, so it may be applied.
  std::function<result<void>(std::span<const float> mean)> exchanged{};
  /// Whether the step under way is the run's last, so that everything is exchanged after it.
  std::function<bool()> run_ends{};
  /// Of a policy that gathers samples: whether there are enough with the step under way, so that an exchange comes.
  std::function<bool()> enough{};
  /// Whether others wait at it, or there will be none in this attempt.
  std::function<bool()> waits{};
  /// Once in an attempt that begins with an exchange behind it: those who will exchange at its end. Else no attempt.
  std::function<exchange_entry()> lines{};
  bool by_block = false;  ///< rows are of single blocks: those who exchange need not hold the same ones
};

/// Those who hold the same blocks in an attempt, this peer among them.
struct block_holders {
  net::any_transport& transport;          ///< to them alone
  net::message_id id;                     ///< of one gather, which is theirs
  std::vector<net::peer_index> peers{};   ///< their numbers in the attempt; none: this peer rests
  std::vector<std::uint64_t> replicas{};  ///< of each, what names its replica as long as that is whole
  time_point deadline = no_deadline;
};

/// What the communication policy keeps from round to round, and does for who has a part of the model. The group sets
/// `alike`, `begin_anew`, and what is as shared_state's.
struct exchange_state {
  std::vector<std::span<std::byte>> alike{};  ///< equal on all peers, whatever blocks they hold
  /// For each parameter, the shared parameters first, in one piece; where the pieces lie changes with `divide`. None: it
  /// cannot be divided.
  std::function<std::vector<parameter_row>()> rows{};
  /// The model has another part than `before` now: the rows follow. What they have of new parameters is to be put there.
  std::function<result<void>(std::span<const parameter_segment> before)> divide{};
  bool rows_in_parts = false;  ///< a row can be of single blocks, among peers each of which holds others besides
  /// Equal on peers that go on from the same exchange of the same blocks; empty where an exchange remembers nothing. Of the
  /// segment of that number, where this peer has several.
  std::function<std::vector<std::span<std::byte>>(std::size_t segment)> memory{};
  std::function<result<void>(std::size_t segment)> forget{};  ///< that
  /// Where pipelines are cut apart: this peer exchanges each of these ranges by itself from now on, in this order; none:
  /// all that it holds, alone. What was kept of a range that it had already stays.
  std::function<result<void>(std::span<const nn::block_range>)> take_segments{};
  /// Exchanges the segment of that number, while the one before it is about to end.
  std::function<result<void>(std::size_t segment)> exchange_segment{};
  std::function<bool()> exchanges_next{};  ///< after the step under way
  /// Results are a round late: whether a row waits for the next exchange.
  std::function<std::optional<bool>()> row_waits{};
  /// Gradients, by the pass, at the parameters that they are to be of. None: those that are there.
  std::function<result<double>(const std::function<result<double>()>& pass)> compute{};
  std::function<void()> begin_anew{};  ///< from the shared state: this peer's own progress is given up
  /// Of a policy whose peers talk between two exchanges: an attempt has begun, in which these hold the same blocks.
  std::function<result<void>(const block_holders&)> meet_holders{};
  std::uint64_t round_samples = 0;        ///< as shared_state's
  bool by_pace = false;                   ///< likewise
  std::optional<double> round_seconds{};  ///< likewise
  /// Of replicas of these speeds (0: unknown), each one's part of a batch in micro-batches. None, or nothing: as
  /// the recovery shares them out.
  std::function<std::vector<std::size_t>(const std::vector<double>& speeds)> parts_for{};
  std::uint32_t paths = 0;        ///< through modules, or regions: each pipeline has one; 0: there are none
  std::uint32_t batch_parts = 0;  ///< equal parts of a global batch, one for each path; 0: all pipelines share all of it
  /// This peer's pipeline has that path from now on, or it is in none. True: it is another than before, and the shared
  /// parameters are not what the live ones began from.
  std::function<bool(std::optional<std::uint32_t> path)> follow{};
  std::function<void(std::uint32_t path, std::span<float> to)> parameters_of{};  ///< the shared ones of any path
};

/// All calls from the trainer's thread.
class step_group {
 public:
  virtual ~step_group() = default;
  [[nodiscard]] virtual std::uint64_t identity() const = 0;
  [[nodiscard]] virtual const step_record& record() const = 0;
  /// Blocks until the next attempt begins; the one that is under way, if nothing has ended it. Errors that another attempt
  /// may cure are for the fault policy.
  virtual result<step_attempt> begin_attempt() = 0;
  /// Every peer's gradient is complete, whether or not all know. Success: the run has taken a step; `record()` says which.
  virtual result<void> propose(const step_record& next) = 0;
  /// What the peers did together did not go through. Success: another attempt may, or `record()` is another. `why`: none
  /// would.
  virtual result<void> failed(const error& why) = 0;
  /// The step under way was finished by others: the next verdict is commit.
  virtual void finished_by_others() = 0;
  /// What the communication policy exchanges has changed since it was let in: it makes its row again, and the attempt goes
  /// on.
  virtual void begin_exchange_again() = 0;
  /// From now on the communication policy exchanges by them; without, it sees a peer that is alone.
  virtual void exchange_by(exchange_hooks rounds) = 0;
  /// So many peers are expected to exchange with each other.
  virtual void expects(std::uint32_t holders) = 0;
  /// Once the trainer has started.
  [[nodiscard]] virtual const exchange_state& state() const = 0;
};

}}}  // namespace causeway::CAUSEWAY_ABI::parallel

#endif  // CAUSEWAY_PARALLEL_ELASTIC_STEP_GROUP_HPP
