// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_COMM_BLOCK_ROWS_HPP
#define CAUSEWAY_COMM_BLOCK_ROWS_HPP

// What comm::rounds keeps for each parameter between two exchanges, for peers whose part of the model changes during a run:
// shared parameters and the outer optimizer's state, which belong to a block and move with it; of models of modules those
// of all versions, row by row: what has fewer of them stands in several rows. A residual is a peer's own, of rows that it
// sent, and is dropped when its part changes: with a newcomer it starts at zero, too.

#include <causeway/comm/round_rules.hpp>
#include <causeway/core/result.hpp>
#include <causeway/membership/state_image.hpp>
#include <causeway/tensor/parameters.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace comm { namespace detail {

/// Of a policy whose shared parameters and outer optimizer are in memory.
template <class Core>
class block_rows {
  using outer_type = typename Core::outer_type;

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
        for (const std::size_t part : rows_of_outer()) rows.push_back(of_outer(v, part));
      }
    } else if constexpr (Core::keeps_means) {
      for (auto& means : core_.rows.means()) rows.push_back({{means}});
    }
    return rows;
  }

  /// The model of `ctx` has another part than `before`, and its parameters are there. What was kept of those that stayed
  /// goes with them; of new ones the shared parameters are the live ones, and the optimizer's state is as when it begins.
  result<void> divide(auto& ctx, std::span<const parameter_segment> before) const {
    std::vector<std::vector<float>> old;
    if constexpr (!Core::content_type::before_inner_step) {
      for (const parameter_row& row : all()) old.push_back(copy_of(row));
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
      if constexpr (Core::content_type::anchored) reset_outer(core_.states[i]);
    }
    if constexpr (Core::by_path) {
      core_.modules.found(core_.states, core_.cuts, ctx.parameters());
      core_.modules.lay_out(core_.states);
    }
    if constexpr (!Core::content_type::before_inner_step) keep_common(old, before, ctx.view().segments);
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
  using state = typename Core::state;

  void begin_shared(auto& ctx) const {
    if constexpr (Core::content_type::anchored) {
      const auto live = ctx.parameters();
      core_.rows.anchor().assign(live.begin(), live.end());
    } else {
      core_.rows.found_means(ctx);
    }
  }

  void keep_common(const std::vector<std::vector<float>>& old, std::span<const parameter_segment> before,
                   std::span<const parameter_segment> now) const {
    const auto rows = all();
    for_common_pieces(before, now, [&](const parameter_segment& from, const parameter_segment& to) {
      for (std::size_t r = 0; r < rows.size(); ++r) {
        auto value = old[r].begin() + from.offset;
        rows[r].visit(static_cast<std::size_t>(to.offset), static_cast<std::size_t>(to.size()),
                      [&](std::span<float> piece) {
                        std::copy_n(value, piece.size(), piece.begin());
                        value += static_cast<std::ptrdiff_t>(piece.size());
                      });
      }
    });
  }

  /// What belongs to the rows that this peer sent, or was about to.
  void drop_own(state& s) const {
    s.cancel();
    s.residual.clear();
    s.next_residual.clear();
    s.pending = s.begun = false;
    if constexpr (Core::merge_rule_type::own_is_fresh) core_.rows.own().forget();
    if constexpr (!Core::keeps_factors && Core::recipe_type::traits.stateful) s.exchange.emplace(core_.recipe.make(s.part));
  }

  [[nodiscard]] static std::vector<float> copy_of(const parameter_row& row) {
    std::vector<float> values;
    for (const std::span<float> piece : row.pieces) values.insert(values.end(), piece.begin(), piece.end());
    return values;
  }

  /// Which parts of an outer optimizer's state have a value for each parameter: those that are as long as what it is for.
  [[nodiscard]] std::vector<std::size_t> rows_of_outer() const {
    constexpr std::size_t length = 1021;  // which no count of steps is
    outer_type outer = core_.outer;
    outer.reset(static_cast<std::int64_t>(length));
    membership::image_collector parts;
    parts(outer);
    std::vector<std::size_t> rows;
    for (std::size_t p = 0; p < parts.parts().size(); ++p) {
      if (parts.parts()[p].size() == length * sizeof(float)) rows.push_back(p);
    }
    return rows;
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
    return of_states(version, [part](state& s) {
      membership::image_collector parts;
      parts(s.outer);
      return reinterpret_cast<float*>(parts.parts()[part].data());
    });
  }
  /// Of all fragments, in the order of the parameters.
  template <class Values>
  [[nodiscard]] parameter_row of_states(std::size_t version, Values&& values_of) const {
    parameter_row row;
    std::vector<std::size_t> begins;  // of its pieces, rising
    for (std::size_t i = 0; i < core_.states.size(); ++i) {
      if (!stands_for(i, version)) continue;
      state& s = core_.states[i];
      float* values = values_of(s);
      for (const index_range r : s.cut->ranges) {
        row.pieces.push_back({values, static_cast<std::size_t>(r.size())});
        begins.push_back(static_cast<std::size_t>(r.begin));
        for (std::size_t k = begins.size() - 1; k > 0 && begins[k - 1] > begins[k]; --k) {
          std::swap(begins[k - 1], begins[k]);
          std::swap(row.pieces[k - 1], row.pieces[k]);
        }
        values += r.size();
      }
    }
    return row;
  }

  /// Rows as at the beginning; what is no row, such as a count of steps, stays.
  void reset_outer(state& s) const {
    membership::image_collector was;
    was(s.outer);
    std::vector<std::vector<std::byte>> kept;
    for (const std::span<std::byte> part : was.parts()) kept.emplace_back(part.begin(), part.end());
    for (const std::size_t row : rows_of_outer()) kept[row].clear();
    s.outer.reset(static_cast<std::int64_t>(s.size()));
    membership::image_collector is;
    is(s.outer);
    for (std::size_t p = 0; p < kept.size(); ++p) std::copy(kept[p].begin(), kept[p].end(), is.parts()[p].begin());
  }

  Core& core_;
};

}}}}  // namespace causeway::CAUSEWAY_ABI::comm::detail

#endif  // CAUSEWAY_COMM_BLOCK_ROWS_HPP
