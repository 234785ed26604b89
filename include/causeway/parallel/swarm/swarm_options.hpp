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

/// See swarm_peer.hpp.
template <class Whole>
class basic_swarm_peer;
using swarm_peer = basic_swarm_peer<void>;

}}}  // namespace causeway::CAUSEWAY_ABI::parallel

#endif  // CAUSEWAY_PARALLEL_SWARM_SWARM_OPTIONS_HPP
