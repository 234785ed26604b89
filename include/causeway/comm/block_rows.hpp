// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_COMM_BLOCK_ROWS_HPP
#define CAUSEWAY_COMM_BLOCK_ROWS_HPP

// What comm::rounds keeps for each parameter between two exchanges, for peers whose part of the model changes during a run:
// shared parameters and the outer optimizer's state, which belong to a block and move with it. A residual is a peer's own,
// of rows that it sent, and is dropped when its part changes: with a newcomer it starts at zero, too.

#include <causeway/comm/round_rules.hpp>
#include <causeway/core/result.hpp>
#include <causeway/membership/state_image.hpp>
#include <causeway/tensor/parameters.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace comm { namespace detail {

/// Of a policy whose shared parameters and outer optimizer are in memory.
template <class Core>
class block_rows {
  using outer_type = typename Core::outer_type;

 public:
  explicit block_rows(Core& core) : core_{core} {}

  /// One value for each parameter, padding included; the shared parameters first: where parameters themselves are
  /// exchanged, their last means. None where gradients are, since the live parameters are the shared ones.
  [[nodiscard]] std::vector<std::span<float>> all() const {
    std::vector<std::span<float>> rows;
    if constexpr (Core::content_type::anchored) {
      rows.emplace_back(core_.rows.anchor());
      for (const std::span<float> row : of_outer(core_.rows.anchor().size())) rows.push_back(row);
    } else if constexpr (Core::keeps_means) {
      for (auto& means : core_.rows.means()) rows.emplace_back(means);
    }
    return rows;
  }

  /// The model of `ctx` has another part than `before`, and its parameters are there. What was kept of those that stayed
  /// goes with them; of new ones the shared parameters are the live ones, and the optimizer's state is as when it begins.
  result<void> divide(auto& ctx, std::span<const parameter_segment> before) const {
    if constexpr (!Core::content_type::before_inner_step) divide_rows(ctx, before);
    if constexpr (Core::content_type::sums_updates) {
      core_.rows.updates().assign(ctx.parameters().size(), 0.0F);
      CAUSEWAY_TRY(ctx.track_updates(core_.rows.updates()));
    }
    CAUSEWAY_ASSIGN(core_.cuts, core_.fragments.cut(ctx.view().segments, ctx.parameters().size()));
    for (std::size_t i = 0; i < core_.states.size(); ++i) {
      core_.states[i].residual.clear();
      core_.states[i].next_residual.clear();
      CAUSEWAY_TRY(core_.prepare(ctx, i));
    }
    return {};
  }

  /// What the exchange remembers of the one before: nothing, or what fits the blocks that are here.
  [[nodiscard]] std::vector<std::span<std::byte>> memory() const {
    membership::image_collector parts;
    if constexpr (Core::keeps_factors) core_.states.front().exchange->shared(parts);
    return parts.parts();
  }
  /// It begins as in a run's first round.
  result<void> forget(auto& ctx) const {
    if constexpr (Core::keeps_factors) {
      core_.states.front().exchange.emplace(core_.recipe.make(0));
      return core_.prepare(ctx, 0);
    }
    return {};
  }

 private:
  using bytes = std::span<std::byte>;

  void divide_rows(auto& ctx, std::span<const parameter_segment> before) const {
    std::vector<std::vector<float>> old;
    for (const std::span<float> row : all()) old.emplace_back(row.begin(), row.end());
    if constexpr (Core::content_type::anchored) {
      const auto live = ctx.parameters();
      core_.rows.anchor().assign(live.begin(), live.end());
      reset_outer(core_.states.front().outer, old.front().size(), live.size());
    } else {
      core_.rows.found_means(ctx);
    }
    const auto rows = all();
    for_common_pieces(before, ctx.view().segments, [&](const parameter_segment& from, const parameter_segment& to) {
      for (std::size_t r = 0; r < rows.size(); ++r) {
        std::copy_n(old[r].begin() + from.offset, from.size(), rows[r].begin() + to.offset);
      }
    });
  }

  [[nodiscard]] static bool is_row(const bytes& part, std::size_t length) { return part.size() == length * sizeof(float); }

  [[nodiscard]] std::vector<std::span<float>> of_outer(std::size_t length) const {
    membership::image_collector parts;
    parts(core_.states.front().outer);
    std::vector<std::span<float>> rows;
    for (const bytes& part : parts.parts()) {
      if (is_row(part, length)) rows.emplace_back(reinterpret_cast<float*>(part.data()), length);
    }
    return rows;
  }

  /// Rows as at the beginning; what is no row, such as a count of steps, stays.
  static void reset_outer(outer_type& outer, std::size_t from, std::size_t to) {
    membership::image_collector was;
    was(outer);
    std::vector<std::vector<std::byte>> kept;
    for (const bytes& part : was.parts()) kept.emplace_back(part.begin(), part.end());
    outer.reset(static_cast<std::int64_t>(to));
    membership::image_collector is;
    is(outer);
    for (std::size_t p = 0; p < kept.size(); ++p) {
      if (kept[p].size() == is.parts()[p].size() && kept[p].size() != from * sizeof(float))
        std::copy(kept[p].begin(), kept[p].end(), is.parts()[p].begin());
    }
  }

  Core& core_;
};

}}}}  // namespace causeway::CAUSEWAY_ABI::comm::detail

#endif  // CAUSEWAY_COMM_BLOCK_ROWS_HPP
