// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PARALLEL_SWARM_SHARES_HPP
#define CAUSEWAY_PARALLEL_SWARM_SHARES_HPP

// Who puts what into the sum of a stage's gradients, decided by all of an exchange's peers from the same facts, before
// anything is added: this, and nothing before it, makes every micro-batch count exactly once.

#include <causeway/config/config.hpp>
#include <causeway/core/error.hpp>
#include <causeway/core/result.hpp>
#include <causeway/net/codec.hpp>
#include <causeway/parallel/swarm_messages.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace causeway::inline CAUSEWAY_ABI::parallel {

/// What one peer could put in.
struct swarm_holding {
  std::uint64_t step = 0;
  bool sum = false;            ///< it has the whole sum, of an exchange that was called off afterwards
  swarm_wire::batch_set done;  ///< micro-batches in its own gradient
  bool released = false;       ///< other stages are through with the round: what is missing stays missing
  bool part = false;           ///< it has the first stage's part of a tied table's gradient, and this is the last stage
};

enum class swarm_part : std::uint8_t {
  own,      ///< its own gradient
  sum,      ///< the sum that it has
  nothing,  ///< zeros; what it has stays as it is
  dropped,  ///< zeros, and it must forget its gradient: others have part of it
};

struct swarm_plan {
  std::vector<swarm_part> parts;  ///< by peer of the exchange
  bool complete = false;          ///< the parts make the whole; else nothing may be exchanged
  std::size_t adds_part = none;   ///< who adds the first stage's part of a tied table's gradient

  static constexpr std::size_t none = SIZE_MAX;
};

/// A sum that somebody has is taken as it is. Else peers count in their order, and one whose set meets what those before
/// it have is left out whole: its gradient cannot be taken apart. `needs_part`: the last stage of a model with a tied
/// table; the first peer that has the first stage's part adds it to whatever else it puts in.
[[nodiscard]] inline swarm_plan plan_shares(std::span<const swarm_holding> all, std::uint64_t step,
                                            const swarm_wire::batch_set& wanted, bool needs_part = false) {
  swarm_plan plan{std::vector(all.size(), swarm_part::nothing)};
  for (std::size_t p = 0; p < all.size(); ++p) {
    if (!all[p].sum || all[p].step != step) continue;
    plan.parts[p] = swarm_part::sum;
    plan.complete = true;
    return plan;
  }
  swarm_wire::batch_set covered{wanted.size()};
  for (std::size_t p = 0; p < all.size(); ++p) {
    if (all[p].step != step || all[p].done.size() != wanted.size() || all[p].done.count() == 0) continue;
    const bool doubled = all[p].done.meets(covered);
    plan.parts[p] = doubled ? swarm_part::dropped : swarm_part::own;
    if (!doubled) covered.unite(all[p].done);
  }
  const auto lets_go = [step](const swarm_holding& h) { return h.released && h.step == step; };
  plan.complete = covered == wanted || std::any_of(all.begin(), all.end(), lets_go);
  if (!needs_part) return plan;
  const auto has_part = [step](const swarm_holding& h) { return h.part && h.step == step; };
  const auto first = std::find_if(all.begin(), all.end(), has_part);
  if (first != all.end()) plan.adds_part = static_cast<std::size_t>(first - all.begin());
  plan.complete = plan.complete && first != all.end();
  return plan;
}

/// What `self` weighs in a mean over all micro-batches, where parts are means over those of each peer.
[[nodiscard]] inline double weight_of(std::span<const swarm_holding> all, const swarm_plan& plan, std::size_t self) {
  if (plan.parts[self] == swarm_part::sum) return 1;
  if (plan.parts[self] != swarm_part::own) return 0;
  double together = 0;
  for (std::size_t p = 0; p < all.size(); ++p) together += plan.parts[p] == swarm_part::own ? all[p].done.count() : 0;
  return all[self].done.count() / together;
}

/// A peer's gradient while it goes in and out of exchanges: what it has computed itself, and its stage's sum.
class swarm_gradients {
 public:
  void begin(std::uint64_t step) {
    own_.clear();
    own_table_.clear();
    if (step_ != step) sum_.clear();
  }
  [[nodiscard]] bool has_sum(std::uint64_t step) const noexcept { return step_ == step && !sum_.empty(); }
  void keep_sum(std::uint64_t step, std::vector<float> sum) {
    sum_ = std::move(sum);
    step_ = step;
    ++version_;
  }
  /// Precondition: it has one.
  [[nodiscard]] std::span<const float> sum() const noexcept { return sum_; }
  /// Another one for every sum.
  [[nodiscard]] std::uint64_t version() const noexcept { return version_; }

  /// Fills `gradients`, which holds this peer's own, with its part; `restore` undoes it, if `keeps`.
  void put_in(swarm_part part, std::span<float> gradients, bool keeps = true) {
    if (part == swarm_part::own) return;
    if (keeps && part != swarm_part::dropped) own_.assign(gradients.begin(), gradients.end());
    if (part == swarm_part::sum) {
      std::copy(sum_.begin(), sum_.end(), gradients.begin());
    } else {
      std::fill(gradients.begin(), gradients.end(), 0.0F);
    }
  }
  /// Adds the other end's part to `table`, a place in what was put in; `restore` undoes that too.
  void add_part(std::span<const float> part, std::span<float> table) {
    own_table_.assign(table.begin(), table.end());
    for (std::size_t i = 0; i < table.size(); ++i) table[i] += part[i];
  }
  /// `table`: the place of `add_part`, or empty.
  void restore(std::span<float> gradients, std::span<float> table = {}) {
    if (!own_table_.empty()) std::copy(own_table_.begin(), own_table_.end(), table.begin());
    if (!own_.empty()) std::copy(own_.begin(), own_.end(), gradients.begin());
    own_.clear();
    own_table_.clear();
  }

 private:
  std::vector<float> own_, own_table_, sum_;
  std::uint64_t step_ = 0;
  std::uint64_t version_ = 0;
};

[[nodiscard]] inline std::vector<std::byte> encode(const swarm_holding& h) {
  net::byte_writer out;
  out.put(h.step).put(static_cast<std::uint8_t>((h.sum ? 1 : 0) | (h.released ? 2 : 0) | (h.part ? 4 : 0)));
  h.done.write(out);
  return std::move(out).take();
}

[[nodiscard]] inline result<swarm_holding> decode_holding(std::span<const std::byte> bytes) {
  net::byte_reader in{bytes};
  swarm_holding h;
  h.step = in.get<std::uint64_t>();
  const auto flags = in.get<std::uint8_t>();
  if (flags > 7) in.refuse();
  h.sum = (flags & 1U) != 0;
  h.released = (flags & 2U) != 0;
  h.part = (flags & 4U) != 0;
  h.done = swarm_wire::batch_set::read(in);
  CAUSEWAY_TRY(in.finish("swarm holding"));
  return h;
}

}  // namespace causeway::inline CAUSEWAY_ABI::parallel

#endif  // CAUSEWAY_PARALLEL_SWARM_SHARES_HPP
