// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PARALLEL_SWARM_SWARM_OPTIONS_HPP
#define CAUSEWAY_PARALLEL_SWARM_SWARM_OPTIONS_HPP

// What a swarm is told, what it needs of a model, and what it gives to the membership of a stage.

#include <causeway/collective/options.hpp>
#include <causeway/config/config.hpp>
#include <causeway/core/clock.hpp>
#include <causeway/core/result.hpp>
#include <causeway/parallel/swarm/micro_batch_state.hpp>
#include <causeway/parallel/swarm/swarm_shares.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace parallel {

struct swarm_options {
  std::uint64_t run = 0;  ///< messages of another run are refused
  std::uint32_t stage = 0;
  std::uint32_t stages = 1;
  std::int64_t micro_batches = 8;  ///< of a global batch; equal on all peers
  /// Most steps that the peers of a stage take on their own between two exchanges, equal on all peers:
  /// parallel::local_swarm. When the exchanges are, the communication policy says. 0: gradients are summed in every step:
  /// parallel::swarm.
  std::uint32_t local_steps = 0;
  /// Of the run, where peers take local steps: the last is followed by an exchange of everything, after which the peers of
  /// a stage are alike. 0: not known.
  std::uint64_t steps = 0;
  std::uint32_t window = 2;         ///< micro-batches under way, for each peer that serves
  std::vector<std::string> dial{};  ///< addresses of other peers; they tell of the rest
  duration heartbeat = std::chrono::seconds{1};
  duration silence = std::chrono::seconds{10};         ///< after which a connection is given up
  duration rebalance_every = std::chrono::minutes{5};  ///< how often a peer may be asked to serve another stage; 0: never
  double hysteresis = 1;                               ///< waiting micro-batches per peer that make it worth it
  duration say_after = std::chrono::seconds{5};        ///< a wait longer than this is logged, then at double intervals

  /// Of any turn.
  [[nodiscard]] std::size_t most_micro_batches() const noexcept {
    return static_cast<std::size_t>(micro_batches) * std::max(local_steps, 1U);
  }
};

/// A boundary tensor of one micro-batch.
struct swarm_crossing {
  std::uint32_t micro_batch = 0;
  std::uint32_t edge = 0;  ///< the lower of the stages between which it travels
  bool backward = false;   ///< a gradient
};

/// What a stage made of a micro-batch.
struct swarm_output {
  double loss = 0;       ///< summed over tokens, where it is known: on the last stage
  boundary_bytes bytes;  ///< to the next stage of the path; null at the model's ends
};

/// A stage of a model, as a swarm computes with it. For the trainer's thread.
class swarm_computer {
 public:
  virtual ~swarm_computer() = default;
  /// No encoded tensor of this crossing is longer.
  [[nodiscard]] virtual std::size_t most_bytes(const swarm_crossing& c) const = 0;
  /// The input of what is computed next. Any error: it was not what an encoder makes of finite values.
  virtual result<void> take_in(const swarm_crossing& c, const boundary_bytes& bytes) = 0;
  /// What comes out crosses as `output`. Keeps the activations until `backward`; in an evaluation it does not.
  virtual result<swarm_output> forward(const swarm_crossing& output) = 0;
  /// Adds the micro-batch's gradient.
  virtual result<swarm_output> backward(const swarm_crossing& d_input) = 0;
  [[nodiscard]] virtual std::span<float> gradients() = 0;
  /// Of the 2-norm of the gradients. Both ends have a tied table's: there it counts in the last stage.
  [[nodiscard]] virtual double squares() = 0;
  /// What `forward` keeps of a micro-batch that begins anew is of no use.
  virtual void forget(std::uint32_t) {}
  /// `values` writes others over the stage's parameters.
  virtual void replace_parameters(const std::function<void(std::span<float>)>&) {}
  /// An inner step on `scale` times the gradients, which are the sum over a part of the micro-batches.
  virtual result<void> take_step(float) { return {}; }
};

/// A token table that is the output layer too, as an end of the model holds it.
struct swarm_tied_table {
  std::size_t offset = 0;                          ///< in buffers of the stage's parameters
  std::size_t length = 0;                          ///< 0: there is none, or this stage does not hold it
  std::function<std::span<float>()> parameters{};  ///< of the stage
  std::function<std::uint64_t()> step{};           ///< training_context::step
};

/// The whole sum of a stage's gradients in a step.
struct swarm_sum {
  std::uint64_t step = 0;
  double squares = 0;         ///< of its 2-norm
  std::span<float> values{};  ///< in the gradients; none where rows are exchanged, which the stage's group has
};

/// What a peer puts into its stage's exchange.
struct swarm_part_taken {
  std::vector<double> weights;               ///< of every peer's row
  std::optional<std::uint32_t> result_at{};  ///< of rows: who has what an earlier attempt came to, which counts
  std::span<const float> result{};           ///< that, where this peer has it
  /// With local steps: others have a part of what this peer has moved, which it gives up. It begins the round anew.
  bool gives_up = false;
  std::vector<std::uint32_t> paths{};  ///< of a model of modules: see round_entry::paths
};

/// Calls what computes gradients with the parameters where a peer wants them to be of, and puts these back. None: those
/// that are there, which are the same at all peers of a stage.
using gradient_place = std::function<result<double>(const std::function<result<double>()>& pass)>;

/// A peer's part in the steps of a swarm, as train/swarm_group.hpp and parallel/swarm.hpp use it. All functions are for the
/// trainer's thread.
class swarm_round {
 public:
  virtual ~swarm_round() = default;
  [[nodiscard]] virtual const swarm_options& options() const noexcept = 0;
  /// Joins the others. Once; later calls do nothing. `agreement`: peers with another one are refused.
  virtual void open(std::uint64_t agreement) = 0;
  /// Before that, at both ends of a model with a tied table.
  virtual void tie(swarm_tied_table table) = 0;
  /// After that, before the first step: the communication policy makes a row of this peer's gradient, which is to be the
  /// mean over its micro-batches, and exchanges a mean of all rows; it may round them, and keep what that leaves out.
  /// `late`: rows are exchanged in the step after that which they are of. `at`: see gradient_place. errc::unsupported with
  /// a tied table.
  virtual result<void> exchange_means(bool late, gradient_place at) = 0;
  /// The parameters are a committed state's: after the membership was opened, and after every commit. `adopted`: it is the
  /// stage's other peers', and training_context::step says so already. The last stage gives its table from now on.
  virtual void committed(bool adopted) = 0;
  /// After the inner step: the first stage takes over the table that the last one has committed. Whether parameters
  /// changed.
  virtual bool put_table() = 0;

  /// A batch through all stages, forward only, in so many pieces: the summed loss. Every peer calls it, as often before a
  /// step. errc::cancelled: the others are through, and nobody knows any more what came out. `path`: with the shared
  /// parameters of that one, whatever path a peer is on.
  virtual result<double> evaluate(std::uint64_t step, std::uint32_t pieces, swarm_computer& computer,
                                  std::optional<std::uint32_t> path) = 0;

  /// A new step, with cleared gradients: computes what it is given until all stages have all micro-batches, and gives the
  /// summed loss. `computer` must outlive the step.
  virtual result<double> run(std::uint64_t step, swarm_computer& computer) = 0;
  /// The same again, before another attempt at the exchange. Ends also when `summoned` says that the stage's peers wait in
  /// an exchange: they are told there what is missing.
  virtual result<void> complete(const std::function<bool()>& summoned) = 0;

  /// Whether something is to be computed before the stage's peers can exchange. From any thread.
  [[nodiscard]] virtual bool called_away() const noexcept = 0;
  /// What this peer could put into its stage's sum.
  [[nodiscard]] virtual swarm_holding holding() = 0;
  /// Everybody's holdings, this peer's at `self`: fills the gradients with this peer's part, unless rows are exchanged,
  /// and gives the weights in the sum. errc::cancelled: the parts do not make the whole, or this peer's row is another now.
  virtual result<swarm_part_taken> take_part(std::span<const swarm_holding> all, std::size_t self) = 0;
  /// `sum` is the stage's, in the gradients; where rows are exchanged, all that came of the exchange, one after the other.
  /// `gradient`: what of it counts in the norm. Nobody has been told. What is on disk before `all_summed` tells the other
  /// stages lets this one take the step, whoever is lost afterwards. `sum` must stay until then.
  virtual result<swarm_sum> keep_sum(std::span<const float> sum, std::span<const float> gradient) = 0;
  /// From that disk, in a new process, before the first step: the sum of a step that may have to be made again; without
  /// values, what only others may ask for.
  virtual void restore_sum(const swarm_sum& kept) = 0;
  /// After `keep_sum`. Blocks until every stage has its own, and gives the squared norm of all, and then what `sum` was
  /// called with, added up. The first stage of a model with a tied table waits until the last one has committed the step,
  /// and its table is here.
  virtual result<std::vector<double>> all_summed() = 0;
  /// What the stage's peers take for that: `sum` gives it out.
  virtual void agreed(std::span<const double> all) = 0;
  [[nodiscard]] virtual float norm() const = 0;

  /// Micro-batches in this peer's gradient.
  [[nodiscard]] virtual std::uint64_t contributed() = 0;

  /// With local steps, after `run`: this peer is through with the step, for which its contributions count. If an exchange
  /// follows, `round` computes what is missing before it, of all steps since the last one; it must outlive the exchange.
  virtual void end_local_step(std::uint64_t, swarm_computer&) {}
  /// After such a step, while this peer waits for mates: another coordinates now, who may not know that the step is over,
  /// and hears so when this peer begins the next one.
  [[nodiscard]] virtual bool is_waited_for() = 0;
  /// With local steps: the one under way is the run's last.
  [[nodiscard]] virtual bool run_ends() = 0;
  /// With local steps: values[i] ← its sum over all stages, once the stage's peers have `agreed`; until then they must stay
  /// where they are. In every attempt anew, before `keep_sum`. All stages take what the first one has committed.
  virtual result<void> sum(std::span<double> values, const collective::collective_options&) = 0;
  /// Memory for what they came to last, of at most so many numbers in one exchange. It belongs to what the stage's peers
  /// hold alike: whoever has a committed state can tell the other stages what they decided by.
  virtual std::span<std::byte> decision(std::size_t most) = 0;
  /// With local steps, before the first turn: no mean of the stage's peers is everybody's, since they exchange in groups
  /// and have values of their own, or come to more than a mean. None is kept for another attempt.
  virtual void meets_in_groups() = 0;
  /// Likewise: called wherever this peer waits in a turn. None: nothing is.
  virtual void meanwhile(std::function<void()> what) = 0;
  /// With local steps, before the first turn: the model is made of modules, and this peer is on one of `count` paths
  /// through them in each round, which is `taken` when it takes its first micro-batch; `put` writes that path's shared
  /// parameters.
  virtual result<void> shares_paths(std::uint32_t count, std::function<void(std::uint32_t path)> taken,
                                    std::function<void(std::uint32_t path, std::span<float> to)> put) = 0;
  /// With local steps, before a turn: whether this peer has values to compute with. If not, it serves nothing.
  virtual void has_values(bool it_has) = 0;
  /// This peer came to values that are not finite, or its parameters are not: what it has of the turn is thrown away, and
  /// others are given it. It serves again with the next turn that it begins.
  virtual void throw_away() = 0;
  /// With local steps: the micro-batches that this peer has stepped on since the last exchange, of all steps of the round.
  [[nodiscard]] virtual swarm_wire::batch_set progress() const { return {}; }
  /// What a micro-batch takes here, forward and backward; 0: not known yet.
  [[nodiscard]] virtual double seconds_per_micro_batch() { return 0; }
  /// The stage that this peer should serve, if it should serve another. It takes no more micro-batches then, and leaves its
  /// stage's membership: a step ends with errc::cancelled, and the program builds a peer of the other stage.
  [[nodiscard]] virtual std::optional<std::uint32_t> asked_to_move() = 0;
  /// On the clock of deadlines.
  [[nodiscard]] virtual time_point now() = 0;
  [[nodiscard]] virtual std::string describe() = 0;
};

}}}  // namespace causeway::CAUSEWAY_ABI::parallel

#endif  // CAUSEWAY_PARALLEL_SWARM_SWARM_OPTIONS_HPP
