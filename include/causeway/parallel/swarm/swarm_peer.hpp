// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PARALLEL_SWARM_SWARM_PEER_HPP
#define CAUSEWAY_PARALLEL_SWARM_SWARM_PEER_HPP

// A peer of a swarm, on the trainer's thread: the steps, the exchange with the stage's other peers, and the part that
// waits. What it is made of is in swarm_parts.hpp.

#include <causeway/collective/options.hpp>
#include <causeway/config/config.hpp>
#include <causeway/core/clock.hpp>
#include <causeway/core/error.hpp>
#include <causeway/core/metrics.hpp>
#include <causeway/core/result.hpp>
#include <causeway/core/rng.hpp>
#include <causeway/net/fabric.hpp>
#include <causeway/parallel/swarm/micro_batch_state.hpp>
#include <causeway/parallel/swarm/swarm_messages.hpp>
#include <causeway/parallel/swarm/swarm_options.hpp>
#include <causeway/parallel/swarm/swarm_shares.hpp>
#include <causeway/stage/any_router.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace parallel {

template <class Whole>
struct basic_swarm_parts;

/// For who watches a peer, on the trainer's thread. Empty ones are not called.
struct swarm_watch {
  /// What is to compute a step in the place of the computer that was made for it; it passes on to that what it does not do
  /// itself, and outlives the step.
  std::function<swarm_computer&(std::uint64_t step, swarm_computer& made)> computes{};
  /// In an exchange: everybody's holdings, this peer's at `self`, and what it puts in.
  std::function<void(std::span<const swarm_holding> all, std::size_t self, const result<swarm_part_taken>& part)>
      takes_part{};
  std::function<void()> steps{};    ///< after `run`; with local steps, after `end_local_step`
  std::function<void()> commits{};  ///< after `committed`
};

/// A peer of a swarm: its part in the steps, as train/swarm_group.hpp, parallel/swarm.hpp and local_swarm.hpp use it.
/// Threading: all functions from the trainer's thread; `called_away` and `describe` from any.
template <class Whole>
class basic_swarm_peer {
 public:
  basic_swarm_peer(std::shared_ptr<net::fabric> fabric, swarm_options options, stage::routing::any_router router,
                   log_sink log = {});
  basic_swarm_peer(const basic_swarm_peer&) = delete;
  basic_swarm_peer& operator=(const basic_swarm_peer&) = delete;
  ~basic_swarm_peer();

  /// Before the first step.
  void watch(swarm_watch by) { watch_ = std::move(by); }

  [[nodiscard]] const swarm_options& options() const noexcept;

  /// Joins the others. Once; later calls do nothing. `agreement`: peers with another one are refused.
  void open(std::uint64_t agreement);

  /// Before `open`, at both ends of a model with a tied table.
  void tie(swarm_tied_table table);

  /// After `open`, before the first step: the communication policy makes a row of this peer's gradient, which is to be the
  /// mean over its micro-batches, and exchanges a mean of all rows; it may round them, and keep what that leaves out.
  /// `late`: rows are exchanged in the step after that which they are of. `at`: see gradient_place. errc::unsupported with
  /// a tied table.
  result<void> exchange_means(bool late, gradient_place at);

  // ---- a step --------------------------------------------------------------------------------------------------------

  /// A new step, with cleared gradients: computes what it is given until all stages have all micro-batches, and gives the
  /// summed loss. `made`, which computes, must outlive the step.
  result<double> run(std::uint64_t step, swarm_computer& made);

  /// The same again, before another attempt at the exchange. Ends also when `summoned` says that the stage's peers wait in
  /// an exchange: they are told there what is missing.
  result<void> complete(const std::function<bool()>& summoned);

  /// With local steps, after `run`: this peer is through with the step, for which its contributions count. If an exchange
  /// follows, `round` computes what is missing before it, of all steps since the last one; it must outlive the exchange.
  void end_local_step(std::uint64_t step, swarm_computer& round);
  /// With local steps: the one under way is the run's last.
  [[nodiscard]] bool run_ends();
  /// With local steps, before the first turn: no mean of the stage's peers is everybody's, since they exchange in groups
  /// and have values of their own, or come to more than a mean. None is kept for another attempt.
  void meets_in_groups();
  /// With local steps, before the first turn: the model is made of modules, and this peer is on one of `count` paths
  /// through them in each round, which is `taken` when it takes its first micro-batch; `put` writes that path's shared
  /// parameters.
  result<void> shares_paths(std::uint32_t count, std::function<void(std::uint32_t)> taken,
                            std::function<void(std::uint32_t, std::span<float>)> put);
  /// With local steps, before a turn: whether this peer has values to compute with. If not, it serves nothing.
  void has_values(bool it_has);
  /// Likewise: called wherever this peer waits in a turn. None: nothing is.
  void meanwhile(std::function<void()> what) { meanwhile_ = std::move(what); }
  /// This peer came to values that are not finite, or its parameters are not: what it has of the turn is thrown away, and
  /// others are given it. It serves again with the next turn that it begins.
  void throw_away();
  /// With local steps: the micro-batches that this peer has stepped on since the last exchange, of all steps of the round.
  [[nodiscard]] swarm_wire::batch_set progress() const;

  /// A batch through all stages, forward only, in so many pieces: the summed loss. Every peer calls it, as often before a
  /// step. errc::cancelled: the others are through, and nobody knows any more what came out. `path`: with the shared
  /// parameters of that one, whatever path a peer is on.
  result<double> evaluate(std::uint64_t step, std::uint32_t pieces, swarm_computer& computer,
                          std::optional<std::uint32_t> path);

  /// Whether something is to be computed before the stage's peers can exchange. From any thread.
  [[nodiscard]] bool called_away() const noexcept;
  /// After such a step, while this peer waits for mates: another coordinates now, who may not know that the step is over,
  /// and hears so when this peer begins the next one.
  [[nodiscard]] bool is_waited_for();

  /// What this peer could put into its stage's sum.
  [[nodiscard]] swarm_holding holding();

  /// Everybody's holdings, this peer's at `self`: fills the gradients with this peer's part, unless rows are exchanged,
  /// and gives the weights in the sum. errc::cancelled: the parts do not make the whole, or this peer's row is another now.
  result<swarm_part_taken> take_part(std::span<const swarm_holding> all, std::size_t self);

  /// `sum` is the stage's, in the gradients; where rows are exchanged, all that came of the exchange, one after the other.
  /// `gradient`: what of it counts in the norm. Nobody has been told. What is on disk before `all_summed` tells the other
  /// stages lets this one take the step, whoever is lost afterwards. `sum` must stay until then.
  result<swarm_sum> keep_sum(std::span<const float> sum, std::span<const float> gradient);

  /// From that disk, in a new process, before the first step: the sum of a step that may have to be made again; without
  /// values, what only others may ask for.
  void restore_sum(const swarm_sum& kept);

  /// After `keep_sum`. Blocks until every stage has its own, and gives the squared norm of all, and then what `sum` was
  /// called with, added up. The first stage of a model with a tied table waits until the last one has committed the step,
  /// and its table is here.
  result<std::vector<double>> all_summed();

  /// With local steps: values[i] ← its sum over all stages, once the stage's peers have `agreed`; until then they must stay
  /// where they are. In every attempt anew, before `keep_sum`. All stages take what the first one has committed.
  result<void> sum(std::span<double> values, const collective::collective_options&);
  /// Memory for what they came to last, of at most so many numbers in one exchange. It belongs to what the stage's peers
  /// hold alike: whoever has a committed state can tell the other stages what they decided by.
  std::span<std::byte> decision(std::size_t most);
  /// What that memory holds.
  [[nodiscard]] std::optional<swarm_wire::stage_sum> decided() const;

  /// The parameters are a committed state's: after the membership was opened, and after every commit. `adopted`: it is the
  /// stage's other peers', and training_context::step says so already. The last stage gives its table from now on.
  void committed(bool adopted);
  /// After the inner step: the first stage takes over the table that the last one has committed. Whether parameters
  /// changed.
  bool put_table();

  /// What the stage's peers take for that: `sum` gives it out.
  void agreed(std::span<const double> all);
  [[nodiscard]] float norm() const { return static_cast<float>(norm_); }

  /// Micro-batches in this peer's gradient.
  [[nodiscard]] std::uint64_t contributed();

  /// What a micro-batch takes here, forward and backward; 0: not known yet.
  [[nodiscard]] double seconds_per_micro_batch();

  /// The stage that this peer should serve, if it should serve another. It takes no more micro-batches then, and leaves its
  /// stage's membership: a step ends with errc::cancelled, and the program builds a peer of the other stage.
  [[nodiscard]] std::optional<std::uint32_t> asked_to_move();

  /// On the clock of deadlines.
  [[nodiscard]] time_point now();

  /// Whom this peer waits for, and who coordinates. From any thread.
  [[nodiscard]] std::string describe();

  /// Micro-batches that this peer, as coordinator, had to route again.
  [[nodiscard]] std::uint64_t rerouted();
  [[nodiscard]] bool coordinates();

 private:
  [[nodiscard]] bool exchanges_rows() const;

  // The gradients become the mean over this peer's micro-batches, for the policy to make its row of. `row_of`: those that
  // its last row is of. errc::cancelled: it must make another one.
  result<void> make_mean(const swarm_wire::batch_set& row_of);

  result<swarm_part_taken> part_of(std::span<const swarm_holding> all, std::size_t self);

  // What somebody has is taken as it is; else everybody's row counts by its micro-batches.
  [[nodiscard]] result<swarm_part_taken> part_of_mean(std::span<const swarm_holding> all, const swarm_plan& plan);

  void has_summed(const swarm_wire::stage_sum& what);

  // A peer whose values are not finite takes what others of its stage come to; its next step mends it.
  result<void> leave_evaluation_to_others(const error& why);

  // ---- local steps ----------------------------------------------------------------------------------------------------

  // What this peer contributed counts if the coordinator said so; else others may have been given it, or nobody knows.
  result<double> run_alone(std::uint64_t step, swarm_computer& computer);

  // ---- waiting --------------------------------------------------------------------------------------------------------

  result<void> work_until(const std::function<bool()>& done, const std::function<bool()>& summoned = {});

  result<void> wait_a_while(const std::function<bool()>& done, duration most);

  static constexpr duration look_around = std::chrono::milliseconds{100}, a_moment = std::chrono::milliseconds{5};

  std::unique_ptr<basic_swarm_parts<Whole>> parts_;
  swarm_watch watch_;
  std::function<void()> meanwhile_;
  std::uint64_t evaluated_step_ = 0, evaluations_ = 0;  // so many before that step
  swarm_wire::stage_sum kept_;                          // of this stage, which the others hear of next
  std::span<const float> summed_;                       // what that is of
  double norm_ = 0;
  std::pair<std::uint64_t, swarm_computer*> closing_{};  // the turn before an exchange after the step under way
  std::uint32_t told_by_ = 0;                            // the term in which the last local step was over
  bool open_ = false, averages_ = false, late_ = false;  // see exchange_means
  std::size_t most_asked_ = 0;                           // see decision
  time_point again_from_;                                // another attempt at the exchange
  duration waited_{0}, say_at_;
};

}}}  // namespace causeway::CAUSEWAY_ABI::parallel

#ifndef CAUSEWAY_COMPILED
#include <causeway/parallel/swarm/impl/swarm_peer.ipp>
#endif

#endif  // CAUSEWAY_PARALLEL_SWARM_SWARM_PEER_HPP
