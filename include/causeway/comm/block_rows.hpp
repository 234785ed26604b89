// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_COMM_BLOCK_ROWS_HPP
#define CAUSEWAY_COMM_BLOCK_ROWS_HPP

// What comm::rounds keeps for each parameter between two exchanges, for peers whose part of the model changes during a run:
// shared parameters and the outer optimizer's state, which belong to a block and move with it; of models of modules those
// of all versions, row by row: what has fewer of them stands in several rows. A residual is a peer's own, of rows that it
// sent, and is dropped when its part changes: with a newcomer it starts at zero, too.

#include <causeway/comm/outer_rows.hpp>
#include <causeway/comm/round_rules.hpp>
#include <causeway/core/result.hpp>
#include <causeway/membership/state_image.hpp>
#include <causeway/tensor/parameters.hpp>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <span>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace comm { namespace detail {

/// Of a policy whose shared parameters and outer optimizer are in memory.
template <class Core>
class block_rows {
 public:
  explicit block_rows(Core& core) : core_{core} {}

  /// The shared parameters first: where parameters themselves are exchanged, their last means. None where gradients are,
  /// since the live parameters are the shared ones.
  [[nodiscard]] std::vector<parameter_row> all() const {
    std::vector<parameter_row> rows;
    if constexpr (Core::content_type::anchored) {
      rows.push_back({{core_.rows.anchor()}});
      for (std::size_t v = 0; v < versions(); ++v) {
        if constexpr (Core::by_path) rows.push_back(of_states(v, [](state& s) { return s.module.data(); }));
        for (const std::size_t part : rows_of(core_.outer)) rows.push_back(of_outer(v, part));
      }
    } else if constexpr (Core::keeps_means) {
      for (auto& means : core_.rows.means()) rows.push_back({{means}});
    }
    return rows;
  }

  /// The model of `ctx` has another part than `before`, and its parameters are there. What was kept of those that stayed
  /// goes with them; of new ones the shared parameters are the live ones, and the optimizer's state is as when it begins.
  result<void> divide(auto& ctx, std::span<const parameter_segment> before) const {
    kept_rows old;
    if constexpr (!Core::content_type::before_inner_step) {
      old.keep(all());
      begin_shared(ctx);
    }
    if constexpr (Core::content_type::sums_updates) {
      core_.rows.updates().assign(ctx.parameters().size(), 0.0F);
      CAUSEWAY_TRY(ctx.track_updates(core_.rows.updates()));
    }
    CAUSEWAY_ASSIGN(core_.cuts, axis::cut_part(core_.fragments, ctx));
    for (std::size_t i = 0; i < core_.states.size(); ++i) {
      drop_own(core_.states[i]);
      CAUSEWAY_TRY(core_.prepare(ctx, i));
      if constexpr (Core::content_type::anchored) reset_rows(core_.states[i].outer, core_.states[i].size());
    }
    if constexpr (Core::by_path) {
      core_.modules.found(core_.states, core_.cuts, ctx.parameters());
      core_.modules.lay_out(core_.states);
    }
    if constexpr (!Core::content_type::before_inner_step) old.put_common(all(), before, ctx.view().segments);
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
  /// Of results that are a round late: whether a row waits for the next exchange.
  [[nodiscard]] std::optional<bool> row_waits() const {
    return Core::applies_late ? std::optional{core_.states.front().pending} : std::nullopt;
  }

 private:
  using state = typename Core::state;

  void begin_shared(auto& ctx) const {
    if constexpr (Core::content_type::anchored) {
      const auto live = ctx.parameters();
      core_.rows.anchor().assign(live.begin(), live.end());
    } else {
      core_.rows.found_means(ctx);
    }
  }

  /// What belongs to the rows that this peer sent, or was about to.
  void drop_own(state& s) const {
    s.cancel();
    s.residual.clear();
    s.next_residual.clear();
    s.pending = s.begun = false;
    s.samples = 0;
    if constexpr (Core::merge_rule_type::own_is_fresh) core_.rows.own().forget();
    if constexpr (!Core::keeps_factors && Core::recipe_type::traits.stateful) s.exchange.emplace(core_.recipe.make(s.part));
  }

  /// Of models of modules: the most that a fragment has.
  [[nodiscard]] std::size_t versions() const {
    std::size_t most = 1;
    for (std::size_t i = 0; i < core_.states.size(); ++i) most = std::max(most, version_of(i) + 1);
    return most;
  }
  [[nodiscard]] std::size_t version_of(std::size_t i) const {
    const auto& all = core_.states;
    std::size_t before = i;
    while (Core::by_path && before > 0 && all[before - 1].fragment == all[i].fragment) --before;
    return i - before;
  }
  /// Whether it is that version of its fragment, or the last, where that has fewer: rows have a value for each parameter.
  [[nodiscard]] bool stands_for(std::size_t i, std::size_t version) const {
    const std::size_t own = version_of(i);
    const bool is_last = i + 1 == core_.states.size() || version_of(i + 1) == 0;
    return own == version || (own < version && is_last);
  }

  [[nodiscard]] parameter_row of_outer(std::size_t version, std::size_t part) const {
    return of_states(version, [part](state& s) { return reinterpret_cast<float*>(parts_of(s.outer)[part].data()); });
  }
  /// Of all fragments, in the order of the parameters.
  [[nodiscard]] parameter_row of_states(std::size_t version, auto&& values_of) const {
    row_of_fragments row;
    for (std::size_t i = 0; i < core_.states.size(); ++i) {
      state& s = core_.states[i];
      if (stands_for(i, version)) row.add(*s.cut, values_of(s));
    }
    return row.take();
  }

  Core& core_;
};

}}}}  // namespace causeway::CAUSEWAY_ABI::comm::detail

#endif  // CAUSEWAY_COMM_BLOCK_ROWS_HPP
