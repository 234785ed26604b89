// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_COMM_ROUND_ROWS_HPP
#define CAUSEWAY_COMM_ROUND_ROWS_HPP

// The arithmetic of comm::rounds: what a fragment's row is made of, and what its mean does to the shared and the live
// parameters. Nothing here talks to anybody, and nothing can fail.

#include <causeway/axis/content.hpp>
#include <causeway/axis/fragments.hpp>
#include <causeway/axis/landing.hpp>
#include <causeway/axis/outer.hpp>
#include <causeway/axis/participation.hpp>
#include <causeway/axis/parts.hpp>
#include <causeway/axis/residual.hpp>
#include <causeway/comm/round_rules.hpp>
#include <causeway/kernels/elementwise.hpp>
#include <causeway/kernels/reduce.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace causeway::inline CAUSEWAY_ABI::comm::detail {

/// Of one policy. `State` is its round_state.
template <class State, class... Axes>
class round_rows {
  using laws = round_rules<Axes...>;
  using state = State;
  using content_type = axis::pick<axis::part::content, axis::pseudo_gradient, Axes...>;
  using residual_type = axis::pick<axis::part::residual, axis::no_residual, Axes...>;
  using participation_type = axis::pick<axis::part::participation, axis::everyone, Axes...>;
  using landing_type = axis::pick<axis::part::landing, axis::blocking, Axes...>;

 public:
  static constexpr bool keeps_in_parameters = residual_type::keeps == axis::keeping::in_parameters;

  round_rows(residual_type residual, landing_type landing) : residual_{std::move(residual)}, landing_{std::move(landing)} {}

  [[nodiscard]] const landing_type& landing() const noexcept { return landing_; }
  [[nodiscard]] std::vector<float>& anchor() noexcept { return anchor_; }
  [[nodiscard]] const std::vector<float>& anchor() const noexcept { return anchor_; }
  /// What the inner optimizer subtracted, summed; or gradients that are being gathered.
  [[nodiscard]] std::vector<float>& updates() noexcept { return updates_; }

  void serialize(auto& ar) { ar(anchor_, updates_); }

  /// The tensor that the fragment is cut from.
  [[nodiscard]] std::span<float> live(auto& ctx, const state& s) const {
    if constexpr (content_type::before_inner_step) {
      return ctx.gradients();
    } else if constexpr (content_type::anchored) {
      return ctx.parameters();
    } else {
      return content_type::tensors(ctx)[s.tensor];
    }
  }

  /// input ← what this peer has to say.
  void compose(auto& ctx, state& s) {
    s.input.resize(s.size() * (content_type::with_anchor ? 2 : 1));
    const auto row = std::span{s.input}.first(s.size());
    if constexpr (content_type::sums_updates) {
      axis::gather(*s.cut, updates_, row);
    } else if constexpr (content_type::anchored) {
      axis::gather(*s.cut, anchor_, row);
      const auto local = opened(s, live(ctx, s), local_);
      kernels::axpy(ctx.pool(), row.data(), -1.0F, local.data(), count(row));
    } else {
      axis::gather(*s.cut, live(ctx, s), row);
    }
    if constexpr (content_type::with_anchor) axis::gather(*s.cut, anchor_, std::span{s.input}.subspan(s.size()));
    s.add_residual(residual_, ctx.next_learning_rate());
  }
  /// Points the row's conversation at the shared parameters that it is relative to.
  void refer(state& s) {
    if constexpr (content_type::anchored) {
      s.reference.resize(s.cut->is_whole(anchor_.size()) ? 0 : s.size());
      s.terms.reference = opened(s, std::span<float>{anchor_}, s.reference);
    }
  }

  /// |mean| / |shared parameters|.
  double movement(auto& ctx, state& s) {
    if constexpr (laws::mix.watches_movement) {
      const auto shared = opened(s, std::span<float>{anchor_}, shared_);
      const double base = kernels::sum_of_squares(ctx.pool(), shared.data(), count(shared));
      return base > 0 ? std::sqrt(kernels::sum_of_squares(ctx.pool(), s.row.data(), count(s.row)) / base) : 0.0;
    }
    return 0;
  }
  /// `row` is the mean: use it.
  void land(auto& ctx, state& s) {
    if constexpr (content_type::anchored) {
      if (s.terms.contributors > 0)
        move_shared(ctx, s, std::span{s.row}.first(s.size()), std::span{s.row}.subspan(s.size()));
      if (participation_type::keeps_local && !s.terms.contributes) return;
      const auto shared = opened(s, std::span<float>{anchor_}, shared_);
      const auto local = opened(s, live(ctx, s), local_);
      if constexpr (keeps_in_parameters) {
        if (landing_type::waits == axis::waiting::at_once) add_sent(ctx, s, local);
        kernels::axpy(ctx.pool(), local.data(), 1.0F, moved_.data(), count(local));
      } else {
        landing_.land(local, shared, s.at_send);
      }
      put_back(s, local, live(ctx, s));
      if constexpr (content_type::sums_updates) clear_updates(s);
    } else {
      replace(ctx, s);
    }
    if constexpr (!content_type::before_inner_step) ctx.parameters_changed();
  }

  /// The outer step. Where the live parameters keep what was not sent, `moved_` is how far the shared ones went.
  void move_shared(auto& ctx, state& s, std::span<float> mean, std::span<const float> mean_shared) {
    constexpr bool keep = keeps_in_parameters;
    const auto shared = opened(s, std::span<float>{anchor_}, shared_);
    if (keep) moved_.assign(shared.begin(), shared.end());
    s.outer.step(ctx.pool(), shared, mean, mean_shared);
    if (keep) {
      kernels::scale(ctx.pool(), moved_.data(), -1.0F, count(moved_));
      kernels::axpy(ctx.pool(), moved_.data(), 1.0F, shared.data(), count(moved_));
    }
    put_back(s, shared, anchor_);
  }

  /// local += what was sent: the pseudo-gradient points from the live parameters to the shared ones.
  void add_sent(auto& ctx, state& s, std::span<float> local) {
    if (!s.terms.contributes) return;
    kernels::axpy(ctx.pool(), local.data(), 1.0F, s.input.data(), count(local));
    kernels::axpy(ctx.pool(), local.data(), -1.0F, s.next_residual.data(), count(local));
  }
  void take_out_sent(auto& ctx, state& s) {
    const auto local = opened(s, live(ctx, s), local_);
    add_sent(ctx, s, local);
    put_back(s, local, live(ctx, s));
    ctx.parameters_changed();
  }

  /// Tensors become their mean, where something came; what happened to them meanwhile is kept.
  void replace(auto& ctx, state& s) {
    if (participation_type::keeps_local && !s.terms.contributes) return;
    const auto local = opened(s, live(ctx, s), local_);
    for (std::size_t i = 0; i < local.size(); ++i) {
      if (!s.counts.empty() && s.counts[i] == 0) continue;
      local[i] = landing_type::waits == axis::waiting::at_once || content_type::before_inner_step
                     ? s.row[i]
                     : local[i] + (s.row[i] - s.input[i]);
    }
    put_back(s, local, live(ctx, s));
  }

  /// With the mean of the round before, and for an eager landing this peer's own part of this one.
  void land_late(auto& ctx, state& s) {
    std::vector<float>& mean = mean_;
    mean.assign(s.size(), 0.0F);
    if (s.arrived) mean = s.late;
    if constexpr (landing_type::own_is_fresh) {
      const float share = 1.0F / static_cast<float>(s.terms.contributors);
      kernels::axpy(ctx.pool(), mean.data(), share, s.input.data(), count(mean));
      if (s.arrived) kernels::axpy(ctx.pool(), mean.data(), -share, s.own_late.data(), count(mean));
    }
    if constexpr (content_type::anchored) {
      if (s.arrived || landing_type::own_is_fresh) move_shared(ctx, s, mean, {});
      const auto shared = opened(s, std::span<float>{anchor_}, shared_);
      const auto local = opened(s, live(ctx, s), local_);
      if constexpr (!keeps_in_parameters) landing_.land(local, shared, {});
      if (keeps_in_parameters && s.arrived) kernels::axpy(ctx.pool(), local.data(), 1.0F, moved_.data(), count(local));
      put_back(s, local, live(ctx, s));
      if constexpr (content_type::sums_updates) clear_updates(s);
      ctx.parameters_changed();
    } else {
      put_in(s, mean, live(ctx, s));
    }
  }
  static void put_in(const state& s, std::span<const float> row, std::span<float> all) { axis::scatter(*s.cut, row, all); }

  void clear_updates(state& s) {
    for (const index_range r : s.cut->ranges) std::fill(updates_.begin() + r.begin, updates_.begin() + r.end, 0.0F);
  }

  /// What all peers hold alike now; nothing where they do not.
  std::span<const float> shared_of(auto& ctx, const state& s) {
    if constexpr (!laws::identical) {
      return {};
    } else if constexpr (content_type::anchored) {
      return opened(s, std::span<float>{anchor_}, shared_);
    } else {
      return ctx.parameters();
    }
  }
  /// The mean that was still under way when training ended; local progress since the last round stays.
  void land_last(auto& ctx, state& s) {
    const auto local = opened(s, live(ctx, s), local_);
    const auto shared = opened(s, std::span<float>{anchor_}, shared_);
    kernels::axpy(ctx.pool(), local.data(), -1.0F, shared.data(), count(local));
    if constexpr (landing_type::own_is_fresh) {
      const float share = 1.0F / static_cast<float>(s.terms.contributors);
      kernels::axpy(ctx.pool(), s.row.data(), -share, s.input.data(), count(s.row));
      kernels::axpy(ctx.pool(), s.row.data(), share, s.next_residual.data(), count(s.row));
    }
    move_shared(ctx, s, s.row, {});
    kernels::axpy(ctx.pool(), local.data(), 1.0F, opened(s, std::span<float>{anchor_}, shared_).data(), count(local));
    put_back(s, local, live(ctx, s));
  }

  [[nodiscard]] static std::int64_t count(std::span<const float> row) { return static_cast<std::int64_t>(row.size()); }

 private:
  /// A fragment of `all` as one row: where it lies, or gathered into `scratch`.
  static std::span<float> opened(const state& s, std::span<float> all, std::vector<float>& scratch) {
    if (s.cut->is_whole(all.size())) return all;
    scratch.resize(s.size());
    axis::gather(*s.cut, all, scratch);
    return scratch;
  }
  static void put_back(const state& s, std::span<const float> row, std::span<float> all) {
    if (!s.cut->is_whole(all.size())) axis::scatter(*s.cut, row, all);
  }

  residual_type residual_;
  landing_type landing_;

  std::vector<float> anchor_;  ///< the shared parameters
  std::vector<float> updates_;
  std::vector<float> local_;  // working memory
  std::vector<float> shared_;
  std::vector<float> moved_;
  std::vector<float> mean_;
};

}  // namespace causeway::inline CAUSEWAY_ABI::comm::detail

#endif  // CAUSEWAY_COMM_ROUND_ROWS_HPP
