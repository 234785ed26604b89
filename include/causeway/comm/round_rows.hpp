// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_COMM_ROUND_ROWS_HPP
#define CAUSEWAY_COMM_ROUND_ROWS_HPP

// The arithmetic of comm::rounds: what a fragment's row is made of, and what its mean does to the shared and the live
// parameters. Nothing here talks to anybody. The arithmetic is the context's, which does it where the rows lie; errors are
// those of a device.

#include <causeway/axis/content.hpp>
#include <causeway/axis/merge_rule.hpp>
#include <causeway/axis/participation.hpp>
#include <causeway/axis/parts.hpp>
#include <causeway/axis/residual.hpp>
#include <causeway/comm/fragment_rows.hpp>
#include <causeway/comm/own_part.hpp>
#include <causeway/comm/round_rules.hpp>
#include <causeway/core/result.hpp>
#include <causeway/core/thread_pool.hpp>
#include <causeway/tensor/buffer.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace comm { namespace detail {

/// Of one policy. `State` is its round_state.
template <class State, class... Axes>
class round_rows {
  using laws = round_rules<Axes...>;
  using state = State;
  using content_type = axis::pick<axis::part::content, axis::pseudo_gradient, Axes...>;
  using residual_type = axis::pick<axis::part::residual, axis::no_residual, Axes...>;
  using participation_type = axis::pick<axis::part::participation, axis::everyone, Axes...>;
  using merge_rule_type = axis::pick<axis::part::merge_rule, axis::blocking, Axes...>;

 public:
  static constexpr bool keeps_in_parameters = residual_type::keeps == axis::keeping::in_parameters;
  static constexpr bool by_path = laws::by_path;

  round_rows(residual_type residual, merge_rule_type merge_rule)
      : residual_{std::move(residual)}, merge_rule_{std::move(merge_rule)} {}

  [[nodiscard]] const merge_rule_type& merge_rule() const noexcept { return merge_rule_; }
  [[nodiscard]] const residual_type& residual() const noexcept { return residual_; }
  [[nodiscard]] source_vector<float>& anchor() noexcept { return anchor_; }
  [[nodiscard]] const source_vector<float>& anchor() const noexcept { return anchor_; }
  /// What the inner optimizer subtracted, summed; or gradients that are being gathered.
  [[nodiscard]] source_vector<float>& updates() noexcept { return updates_; }
  /// Where parameters themselves are exchanged and peers come and go: the last mean of each value of each tensor.
  [[nodiscard]] std::vector<source_vector<float>>& means() noexcept { return means_; }
  void found_means(auto& ctx) {
    means_.clear();
    for (const std::span<const float> tensor : tensors(ctx)) means_.emplace_back(tensor.begin(), tensor.end());
  }
  /// What all hold alike, which the live parameters follow.
  [[nodiscard]] std::span<const float> followed() const noexcept {
    return content_type::anchored ? std::span<const float>{anchor_} : means_.front();
  }
  /// What all hold alike was replaced: the live parameters move along from `previous`, or are that where it is empty.
  void follow_shared(auto& ctx, std::span<const float> previous) {
    const std::span<const float> shared = followed();
    const auto local = ctx.parameters();
    for (std::size_t i = 0; i < previous.size(); ++i) local[i] += shared[i] - previous[i];
    own_.follow(shared);
    if (!previous.empty()) return;
    std::copy(shared.begin(), shared.end(), local.begin());
    std::fill(updates_.begin(), updates_.end(), 0.0F);
    if constexpr (!content_type::anchored) take_means(ctx);
  }
  /// Where peers have parameters of their own that cannot be used: the mean in their place.
  void begin_anew(auto& ctx, std::vector<state>& states) {
    take_means(ctx);
    if constexpr (content_type::anchored) {
      std::copy(means_.front().begin(), means_.front().end(), anchor_.begin());
      for (state& s : states) s.outer.reset(static_cast<std::int64_t>(s.size()));
    }
    ctx.parameters_changed();
  }
  [[nodiscard]] own_part<state>& own() noexcept { return own_; }
  /// input += how far the live parameters are from what rows are relative to, where they go back to.
  result<void> take_progress(auto& ctx, state& s) {
    CAUSEWAY_ASSIGN(const auto local, opened(ctx, s, live(ctx, s), local_));
    CAUSEWAY_ASSIGN(const auto from, opened(ctx, s, base(), shared_));
    CAUSEWAY_TRY(ctx.rows().blend(local, -1.0F, from, 1.0F));
    CAUSEWAY_TRY(ctx.rows().add(s.input, 1.0F, local));
    const auto all = live(ctx, s);
    CAUSEWAY_TRY(s.cut->is_whole(all.size()) ? ctx.rows().copy(all, from) : ctx.rows().scatter(s.cut->ranges, from, all));
    ctx.parameters_changed();
    return {};
  }
  /// What rows are relative to.
  [[nodiscard]] source_vector<float>& base() noexcept { return own_.is_there() ? own_.base() : anchor_; }
  /// Before `apply`: means ← row, where something came.
  result<void> note_mean(auto& ctx, const state& s) { return note_mean(ctx, s, means_[s.tensor]); }
  /// After `apply`, where other policies are applied to the live parameters, too: alike ← what all hold alike of these now.
  result<void> note_alike(auto& ctx, const state& s, std::span<float> alike) {
    if (s.tensor > 0) return {};
    if constexpr (content_type::anchored && keeps_in_parameters) {
      if (s.terms.contributors == 0) return {};
      CAUSEWAY_ASSIGN(const auto kept, opened(ctx, s, alike, local_));
      CAUSEWAY_TRY(ctx.rows().add(kept, 1.0F, room(moved_, kept.size())));
      return put_back(ctx, s, kept, alike);
    } else if constexpr (content_type::anchored) {
      CAUSEWAY_ASSIGN(const auto row, opened(ctx, s, anchor_, shared_));
      return s.cut->is_whole(alike.size()) ? ctx.rows().copy(alike, row) : ctx.rows().scatter(s.cut->ranges, row, alike);
    } else {
      return note_mean(ctx, s, alike);
    }
  }
  /// What `apply` changes, where results are waited for at once.
  void visit_applied(auto& ctx, auto& ar) {
    for (const std::span<float> tensor : tensors(ctx)) ar.view(tensor);
    if constexpr (content_type::anchored) ar(anchor_);
    if constexpr (content_type::sums_updates) ar(updates_);
  }
  /// Where the rows are to lie from now on.
  void keep_in(const memory_source& memory) {
    for (auto* values : {&anchor_, &updates_, &local_, &shared_, &moved_, &mean_}) move_to(memory, *values);
    own_.keep_in(memory);
    for (auto& values : means_) move_to(memory, values);
  }

  void serialize(auto& ar) {
    ar(anchor_, updates_);
    if constexpr (laws::own_parameters || (!content_type::anchored && !content_type::before_inner_step)) ar(means_);
  }

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
  result<void> compose(auto& ctx, state& s) {
    s.behind = s.samples;
    s.input.resize(s.size() * (content_type::with_anchor ? 2 : 1));
    const auto row = std::span{s.input}.first(s.size());
    const auto rows = ctx.rows();
    if (s.elsewhere) return rows.zero(s.input);
    if constexpr (content_type::sums_updates) {
      CAUSEWAY_TRY(rows.gather(s.cut->ranges, updates_, row));
    } else if constexpr (content_type::anchored) {
      CAUSEWAY_TRY(rows.gather(s.cut->ranges, base(), row));
      CAUSEWAY_ASSIGN(const auto local, opened(ctx, s, live(ctx, s), local_));
      CAUSEWAY_TRY(rows.add(row, -1.0F, local));
    } else {
      CAUSEWAY_TRY(rows.gather(s.cut->ranges, live(ctx, s), row));
    }
    if constexpr (content_type::with_anchor) {
      CAUSEWAY_TRY(rows.gather(s.cut->ranges, anchor_, std::span{s.input}.subspan(s.size())));
    }
    return s.add_residual(ctx, residual_);
  }
  /// at_send ← the live parameters.
  result<void> note_departure(auto& ctx, state& s) {
    s.at_send.resize(s.size());
    return ctx.rows().gather(s.cut->ranges, live(ctx, s), s.at_send);
  }
  /// Points the row's conversation at the shared parameters that it is relative to.
  result<void> refer(auto& ctx, state& s) {
    if constexpr (content_type::anchored) {
      s.reference.resize(s.cut->is_whole(anchor_.size()) || !s.module.empty() ? 0 : s.size());
      CAUSEWAY_ASSIGN(s.terms.reference, shared_row(ctx, s, s.reference));
    }
    return {};
  }

  /// Padding stays zero, whatever a codec makes of zeros. `row`: of as many values as the input, or none.
  result<void> clear_padding(auto& ctx, const state& s, std::span<float> row) {
    for (std::size_t first = 0; first < row.size(); first += s.size()) {
      CAUSEWAY_TRY(kernels::clear(ctx.rows(), s.cut->padding, row.subspan(first, s.size())));
    }
    return {};
  }

  /// Adds |mean|² and |shared parameters|² to these two, as far as they are here; summed by the host: peers compare them,
  /// and a device sums in another order.
  result<void> add_squares(auto& ctx, const state& s, std::span<double> two) {
    CAUSEWAY_ASSIGN(const auto shared, opened(ctx, s, anchor_, shared_));
    two[0] += ctx.stages().squares(ctx.pool(), s.row, s.cut->ranges);
    two[1] += ctx.stages().squares(ctx.pool(), shared, s.cut->ranges);
    return {};
  }

  /// `row` is the mean: use it.
  result<void> apply(auto& ctx, state& s) {
    if constexpr (content_type::anchored) {
      if (s.terms.contributors > 0)
        CAUSEWAY_TRY(move_shared(ctx, s, std::span{s.row}.first(s.size()), std::span{s.row}.subspan(s.size())));
      if (s.elsewhere || (participation_type::keeps_local && !s.terms.contributes)) return {};
      CAUSEWAY_ASSIGN(const auto shared, shared_row(ctx, s, shared_));
      CAUSEWAY_ASSIGN(const auto local, opened(ctx, s, live(ctx, s), local_));
      if (keeps_in_parameters && s.terms.only_takes) {
        CAUSEWAY_TRY(ctx.rows().copy(local, shared));  // what was sent of it another peer knows
      } else if constexpr (keeps_in_parameters) {
        CAUSEWAY_TRY(add_sent(ctx, s, local));
        if (s.terms.contributors > 0) CAUSEWAY_TRY(ctx.rows().add(local, 1.0F, room(moved_, local.size())));
      } else {
        CAUSEWAY_TRY(merge_rule_.apply(ctx.rows(), s.cut->matrices, local, shared, s.at_send));
      }
      CAUSEWAY_TRY(put_back(ctx, s, local, live(ctx, s)));
      if constexpr (content_type::sums_updates) CAUSEWAY_TRY(clear_updates(ctx, s));
    } else {
      CAUSEWAY_TRY(replace(ctx, s));
    }
    if constexpr (!content_type::before_inner_step) ctx.parameters_changed();
    return {};
  }

  /// The outer step. Where the live parameters keep what was not sent, `moved_` is how far the shared ones went.
  result<void> move_shared(auto& ctx, state& s, std::span<float> mean, std::span<const float> mean_shared) {
    constexpr bool keep = keeps_in_parameters;
    const auto rows = ctx.rows();
    CAUSEWAY_ASSIGN(const auto shared, shared_row(ctx, s, shared_));
    const auto moved = keep ? room(moved_, shared.size()) : std::span<float>{};
    if (keep) CAUSEWAY_TRY(rows.copy(moved, shared));
    if constexpr (requires { s.outer.step_rows(rows, shared, mean, mean_shared); }) {
      CAUSEWAY_TRY(s.outer.step_rows(rows, shared, mean, mean_shared));
    } else {
      s.outer.step(ctx.pool(), shared, mean, mean_shared);
    }
    if (keep) CAUSEWAY_TRY(rows.subtract(moved, shared, moved));
    if (s.module.empty()) return put_back(ctx, s, shared, anchor_);
    return s.elsewhere ? result<void>{} : rows.scatter(s.cut->ranges, shared, anchor_);
  }

  /// local += what was sent, once its mean is there: until then it may be sent again, and which part of a row goes out
  /// depends on who takes part. The pseudo-gradient points from the live parameters to the shared ones.
  result<void> add_sent(auto& ctx, state& s, std::span<float> local) {
    if (!s.terms.contributes) return {};
    CAUSEWAY_TRY(ctx.rows().add(local, 1.0F, s.input));
    return ctx.rows().add(local, -1.0F, s.next_residual);
  }
  /// late ← row, own_late ← what this peer put into it, which leaves the live parameters as the mean is about to come.
  result<void> keep_late(auto& ctx, state& s) {
    if constexpr (keeps_in_parameters) CAUSEWAY_TRY(take_out(ctx, s));
    s.late.resize(s.row.size());
    CAUSEWAY_TRY(ctx.rows().copy(s.late, s.row));
    if (own_.is_there()) return {};  // it is taken back where it came from
    s.own_late.resize(s.input.size());
    CAUSEWAY_TRY(ctx.rows().copy(s.own_late, s.input));
    if (s.next_residual.empty()) return {};
    return ctx.rows().add(s.own_late, -1.0F, s.next_residual);
  }

  /// Tensors become what the merge rule makes of their mean and what happened to them meanwhile, where something came.
  result<void> replace(auto& ctx, state& s) {
    if (participation_type::keeps_local && !s.terms.contributes) return {};
    CAUSEWAY_ASSIGN(const auto local, opened(ctx, s, live(ctx, s), local_));
    if (s.counts.empty()) {
      CAUSEWAY_TRY(apply_mean(ctx.rows(), s, local));
    } else {
      const auto applied = room(moved_, local.size());
      CAUSEWAY_TRY(ctx.rows().copy(applied, local));
      CAUSEWAY_TRY(apply_mean(ctx.rows(), s, applied));
      CAUSEWAY_TRY(take_over(ctx.rows(), local, applied, s.counts));
    }
    return put_back(ctx, s, local, live(ctx, s));
  }

  /// With the mean of the round before, and for an eager merge rule this peer's own part of this one.
  result<void> land_late(auto& ctx, state& s) {
    const auto rows = ctx.rows();
    const auto mean = room(mean_, s.size());
    CAUSEWAY_TRY(s.arrived ? rows.copy(mean, s.late) : rows.zero(mean));
    if constexpr (merge_rule_type::own_is_fresh) {
      if (own_.is_there()) return land_own(ctx, s, mean);
      const float share = 1.0F / static_cast<float>(s.terms.contributors);
      CAUSEWAY_TRY(rows.add(mean, share, s.input));  // what it sent of it
      CAUSEWAY_TRY(rows.add(mean, -share, s.next_residual));
      if (s.arrived) CAUSEWAY_TRY(rows.add(mean, -share, s.own_late));
    }
    if constexpr (content_type::anchored) {
      if (s.arrived || merge_rule_type::own_is_fresh) CAUSEWAY_TRY(move_shared(ctx, s, mean, {}));
      CAUSEWAY_ASSIGN(const auto shared, opened(ctx, s, anchor_, shared_));
      CAUSEWAY_ASSIGN(const auto local, opened(ctx, s, live(ctx, s), local_));
      if constexpr (!keeps_in_parameters) CAUSEWAY_TRY(merge_rule_.apply(ctx.rows(), s.cut->matrices, local, shared, {}));
      if (keeps_in_parameters && s.arrived) CAUSEWAY_TRY(rows.add(local, 1.0F, room(moved_, local.size())));
      CAUSEWAY_TRY(put_back(ctx, s, local, live(ctx, s)));
      if constexpr (content_type::sums_updates) CAUSEWAY_TRY(clear_updates(ctx, s));
      ctx.parameters_changed();
      return {};
    } else {
      return rows.scatter(s.cut->ranges, mean, live(ctx, s));
    }
  }

  result<void> clear_updates(auto& ctx, state& s) {
    const std::span<float> all{updates_};
    for (const index_range r : s.cut->ranges) {
      CAUSEWAY_TRY(ctx.rows().zero(all.subspan(static_cast<std::size_t>(r.begin), static_cast<std::size_t>(r.size()))));
    }
    return {};
  }

  /// What all peers hold alike now; nothing where they do not.
  result<std::span<const float>> shared_of(auto& ctx, const state& s) {
    if constexpr (!laws::identical) {
      return std::span<const float>{};
    } else if constexpr (content_type::anchored) {
      CAUSEWAY_ASSIGN(const auto shared, opened(ctx, s, anchor_, shared_));
      return std::span<const float>{shared};
    } else {
      return std::span<const float>{ctx.parameters()};
    }
  }
  /// The mean that was still under way when training ended; local progress since the last round stays.
  result<void> land_last(auto& ctx, state& s) {
    const auto rows = ctx.rows();
    if constexpr (keeps_in_parameters) CAUSEWAY_TRY(take_out(ctx, s));
    CAUSEWAY_ASSIGN(const auto local, opened(ctx, s, live(ctx, s), local_));
    CAUSEWAY_ASSIGN(const auto before, opened(ctx, s, anchor_, shared_));
    CAUSEWAY_TRY(rows.add(local, -1.0F, before));
    if constexpr (merge_rule_type::own_is_fresh) {
      const float share = 1.0F / static_cast<float>(s.terms.contributors);
      CAUSEWAY_TRY(rows.add(s.row, -share, s.input));
      CAUSEWAY_TRY(rows.add(s.row, share, s.next_residual));
    }
    CAUSEWAY_TRY(move_shared(ctx, s, s.row, {}));
    CAUSEWAY_ASSIGN(const auto shared, opened(ctx, s, anchor_, shared_));
    CAUSEWAY_TRY(rows.add(local, 1.0F, shared));
    return put_back(ctx, s, local, live(ctx, s));
  }

 private:
  /// The shared values of a fragment, or of a module of it.
  result<std::span<float>> shared_row(auto& ctx, const state& s, source_vector<float>& scratch) {
    return s.module.empty() ? opened(ctx, s, anchor_, scratch) : result<std::span<float>>{s.module};
  }
  /// A fragment of `all` ← row, where something came.
  result<void> note_mean(auto& ctx, const state& s, std::span<float> all) {
    CAUSEWAY_ASSIGN(const auto kept, opened(ctx, s, all, local_));
    CAUSEWAY_TRY(s.counts.empty() ? ctx.rows().copy(kept, s.row) : take_over(ctx.rows(), kept, s.row, s.counts));
    return put_back(ctx, s, kept, all);
  }
  result<void> take_out(auto& ctx, state& s) {
    CAUSEWAY_ASSIGN(const auto local, opened(ctx, s, live(ctx, s), local_));
    CAUSEWAY_ASSIGN(const auto shared, opened(ctx, s, anchor_, shared_));
    CAUSEWAY_TRY(s.terms.only_takes ? ctx.rows().copy(local, shared) : add_sent(ctx, s, local));
    CAUSEWAY_TRY(put_back(ctx, s, local, live(ctx, s)));
    ctx.parameters_changed();
    return {};
  }
  result<void> apply_mean(const auto& rows, const state& s, std::span<float> local) const {
    if constexpr (merge_rule_type::waits == axis::waiting::at_once || content_type::before_inner_step) {
      return rows.copy(local, s.row);
    } else if constexpr (merge_rule_type::waits == axis::waiting::some_steps) {
      return merge_rule_.apply(rows, s.cut->matrices, local, s.row, s.input);
    } else {
      return axis::replayed{}.apply(rows, s.cut->matrices, local, s.row, s.input);  // a round's steps lie between
    }
  }
  result<void> land_own(auto& ctx, state& s, std::span<float> mean) {
    if (s.arrived) CAUSEWAY_TRY(move_shared(ctx, s, mean, {}));
    CAUSEWAY_ASSIGN(const auto shared, opened(ctx, s, anchor_, shared_));
    CAUSEWAY_ASSIGN(const auto base, own_.step(ctx, s, mean, shared));
    CAUSEWAY_ASSIGN(const auto local, opened(ctx, s, live(ctx, s), local_));
    CAUSEWAY_TRY(merge_rule_.apply(ctx.rows(), s.cut->matrices, local, base, {}));
    CAUSEWAY_TRY(put_back(ctx, s, local, live(ctx, s)));
    if constexpr (content_type::sums_updates) CAUSEWAY_TRY(clear_updates(ctx, s));
    ctx.parameters_changed();
    return {};
  }
  static std::vector<std::span<float>> tensors(auto& ctx) {
    if constexpr (content_type::anchored) {
      return {ctx.parameters()};
    } else {
      return content_type::tensors(ctx);
    }
  }
  void take_means(auto& ctx) const {
    const auto all = tensors(ctx);
    for (std::size_t t = 0; t < all.size(); ++t) std::copy(means_[t].begin(), means_[t].end(), all[t].begin());
  }
  residual_type residual_;
  merge_rule_type merge_rule_;
  source_vector<float> anchor_;  ///< the shared parameters
  source_vector<float> updates_;
  std::vector<source_vector<float>> means_;
  own_part<state> own_;
  source_vector<float> local_;  // working memory
  source_vector<float> shared_;
  source_vector<float> moved_;
  source_vector<float> mean_;
};

}}}}  // namespace causeway::CAUSEWAY_ABI::comm::detail

#endif  // CAUSEWAY_COMM_ROUND_ROWS_HPP
