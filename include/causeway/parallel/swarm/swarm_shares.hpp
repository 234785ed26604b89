// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PARALLEL_SWARM_SWARM_SHARES_HPP
#define CAUSEWAY_PARALLEL_SWARM_SWARM_SHARES_HPP

// Who puts what into the sum of a stage's gradients, decided by all of an exchange's peers from the same facts, before
// anything is added: this, and nothing before it, makes every micro-batch count exactly once.

#include <causeway/config/config.hpp>
#include <causeway/core/result.hpp>
#include <causeway/net/codec.hpp>
#include <causeway/parallel/swarm/swarm_messages.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace parallel {

/// What one peer could put in.
struct swarm_holding {
  std::uint64_t step = 0;
  bool sum = false;            ///< it has the whole sum, of an exchange that was called off afterwards
  swarm_wire::batch_set done;  ///< micro-batches in its own gradient
  bool released = false;       ///< other stages are through with the round: what is missing stays missing
  bool part = false;           ///< it has the first stage's part of a tied table's gradient, and this is the last stage
  // Where rows are exchanged, not parts of a sum:
  bool lacks_values = false;  ///< it has none that its row could be made of
  std::uint64_t samples = 0;  ///< behind the row that it would send; of a gradient: micro-batches
  std::uint32_t row_of = 0;   ///< the attempt that it sent a row in last; 0: in none of this round
  std::uint32_t sum_of = 0;   ///< the attempt that its sum is of
  // Of a model of modules:
  std::uint32_t module_path = swarm_wire::no_module_path;  ///< that its row is of
  std::vector<std::uint32_t> sum_paths{};                  ///< that the rows were of which its sum is of
  swarm_wire::batch_set left_out{};                        ///< swarm_wire::verdict::left_out, as it has heard
};

enum class swarm_part : std::uint8_t {
  own,      ///< its own gradient
  sum,      ///< the sum that it has
  nothing,  ///< zeros; what it has stays as it is
  dropped,  ///< zeros, and it must forget its gradient: others have part of it
};

struct swarm_plan {
  std::vector<swarm_part> parts;  ///< by peer of the exchange
  std::uint64_t step = 0;
  bool complete = false;         ///< the parts make the whole; else nothing may be exchanged
  bool late = false;             ///< the parts are for the rows of the next exchange
  std::size_t adds_part = none;  ///< who adds the first stage's part of a tied table's gradient

  static constexpr std::size_t none = SIZE_MAX;
};

/// A sum that somebody has is taken as it is. Else peers count in their order, and one whose set meets what those before
/// it have is left out whole: its gradient cannot be taken apart. `needs_part`: the last stage of a model with a tied
/// table; the first peer that has the first stage's part adds it to whatever else it puts in. `late`: a sum that somebody
/// has is of the rows of the step before, and parts are made as without it; what lacks then stays lacking.
/// So does what one of them has heard is left out.
CAUSEWAY_DECL [[nodiscard]] swarm_plan plan_shares(std::span<const swarm_holding> all, std::uint64_t step,
                                                   const swarm_wire::batch_set& wanted, bool needs_part = false,
                                                   bool late = false);

/// Of a gradient that is a row of a mean: whether this peer has to give its own up. Others have a part of it, or all of it
/// is in a result that is there already, and this peer's row is not.
CAUSEWAY_DECL [[nodiscard]] bool is_superfluous(std::span<const swarm_holding> all, const swarm_plan& plan,
                                                std::size_t self);

/// With local steps: whether a micro-batch that this peer stepped on is in the values of another, too, who keeps it. That
/// is one who is in a result of an earlier attempt, or has it, or else the one before. What an exchange leaves alone would
/// have it twice.
CAUSEWAY_DECL [[nodiscard]] bool has_doubles(std::span<const swarm_holding> all, const swarm_plan& plan, std::size_t self);

/// The paths through a model of modules that the rows are of which the mean is of; of peers that weigh nothing,
/// no_module_path.
CAUSEWAY_DECL [[nodiscard]] std::vector<std::uint32_t> paths_of(std::span<const swarm_holding> all, const swarm_plan& plan,
                                                                std::span<const double> weights);

/// What each peer weighs in a mean over all rows, by the samples behind its own; of a result that is there already, who is
/// in it. Where nobody has samples, all that have values weigh the same.
CAUSEWAY_DECL [[nodiscard]] std::vector<double> weights_of(std::span<const swarm_holding> all, const swarm_plan& plan);

/// A peer's gradient while it goes in and out of exchanges: what it has computed itself, and its stage's sum.
class swarm_gradients {
 public:
  CAUSEWAY_DECL void begin(std::uint64_t step);
  /// Of a stage that has nothing in an exchange that is an empty one.
  [[nodiscard]] bool has_sum(std::uint64_t step) const noexcept { return step_ == step && has_sum_; }
  CAUSEWAY_DECL void keep_sum(std::uint64_t step, std::vector<float> sum);
  /// Precondition: it has one.
  [[nodiscard]] std::span<const float> sum() const noexcept { return sum_; }
  /// Another one for every sum.
  [[nodiscard]] std::uint64_t version() const noexcept { return version_; }

  /// Fills `gradients`, which holds this peer's own, with its part; `restore` undoes it.
  CAUSEWAY_DECL void put_in(swarm_part part, std::span<float> gradients);
  /// `gradients`, this peer's own, times `factor`; `restore` undoes it.
  CAUSEWAY_DECL void put_in_mean(float factor, std::span<float> gradients);
  /// Adds the other end's part to `table`, a place in what was put in; `restore` undoes that too.
  CAUSEWAY_DECL void add_part(std::span<const float> part, std::span<float> table);
  /// `table`: the place of `add_part`, or empty.
  CAUSEWAY_DECL void restore(std::span<float> gradients, std::span<float> table = {});

 private:
  std::vector<float> own_, own_table_, sum_;
  std::uint64_t step_ = 0;
  std::uint64_t version_ = 0;
  bool has_sum_ = false;
};

CAUSEWAY_DECL [[nodiscard]] std::vector<std::byte> encode(const swarm_holding& h);

CAUSEWAY_DECL [[nodiscard]] result<swarm_holding> decode_holding(std::span<const std::byte> bytes);

}}}  // namespace causeway::CAUSEWAY_ABI::parallel

#ifndef CAUSEWAY_COMPILED
#include <causeway/parallel/swarm/impl/swarm_shares.ipp>
#endif

#endif  // CAUSEWAY_PARALLEL_SWARM_SWARM_SHARES_HPP
