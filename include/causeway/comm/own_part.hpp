// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_COMM_OWN_PART_HPP
#define CAUSEWAY_COMM_OWN_PART_HPP

// Where this peer's own part of a row is applied early and peers come and go: the shared parameters, alike on all peers,
// take the means a round late; the own part, fresh less late, goes through an optimizer of its own. The outer step is
// linear, so that the sum of the two is what one step would have made.

#include <causeway/comm/fragment_rows.hpp>
#include <causeway/core/result.hpp>
#include <causeway/tensor/buffer.hpp>

#include <cstddef>
#include <cstdint>
#include <span>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace comm { namespace detail {

/// Of one policy. `State` is its round_state.
template <class State>
class own_part {
 public:
  /// Nothing of its own is there yet.
  void found(std::span<State> states, std::span<const float> anchor) {
    own_.assign(anchor.size(), 0.0F);
    base_.assign(anchor.begin(), anchor.end());
    for (State& s : states) {
      s.own_outer.emplace(s.outer);
      s.own_outer->reset(static_cast<std::int64_t>(s.size()));
      s.own_late.assign(s.size(), 0.0F);
    }
  }
  /// It begins anew with the next row.
  void forget() noexcept {
    own_.clear();
    base_.clear();
  }
  [[nodiscard]] bool is_there() const noexcept { return !own_.empty(); }
  /// What this peer's rows are relative to: the shared parameters and its own part.
  [[nodiscard]] source_vector<float>& base() noexcept { return base_; }
  /// The shared parameters were replaced.
  void follow(std::span<const float> shared) {
    for (std::size_t i = 0; i < own_.size(); ++i) base_[i] = shared[i] + own_[i];
  }
  /// What is of all fragments goes with the `first`.
  void serialize(auto& ar, State& s, bool first) {
    if (first) ar(own_, base_);
    if (!is_there()) return;
    if (!s.own_outer) s.own_outer.emplace(s.outer);
    ar(*s.own_outer);
  }
  void keep_in(const memory_source& memory) {
    for (auto* values : {&own_, &base_, &own_row_, &base_row_}) move_to(memory, *values);
  }

  /// base ← shared + the part, which goes on by what is fresh less what is late: that fragment of it. `mean`: working
  /// memory.
  result<std::span<const float>> step(auto& ctx, State& s, std::span<float> mean, std::span<const float> shared) {
    const auto rows = ctx.rows();
    CAUSEWAY_TRY(rows.copy(mean, s.own_late));
    CAUSEWAY_TRY(rows.copy(s.own_late, s.input));
    CAUSEWAY_TRY(rows.scale(s.own_late, static_cast<float>(ctx.own_share())));
    CAUSEWAY_TRY(rows.subtract(mean, s.own_late, mean));
    CAUSEWAY_ASSIGN(const auto own, opened(ctx, s, own_, own_row_));
    if constexpr (requires { s.own_outer->step_rows(rows, own, mean, mean); }) {
      CAUSEWAY_TRY(s.own_outer->step_rows(rows, own, mean, {}));
    } else {
      s.own_outer->step(ctx.pool(), own, mean, {});
    }
    CAUSEWAY_TRY(put_back(ctx, s, own, own_));
    CAUSEWAY_ASSIGN(const auto base, opened(ctx, s, base_, base_row_));
    CAUSEWAY_TRY(rows.copy(base, shared));
    CAUSEWAY_TRY(rows.add(base, 1.0F, own));
    CAUSEWAY_TRY(put_back(ctx, s, base, base_));
    return std::span<const float>{base};
  }

 private:
  source_vector<float> own_;
  source_vector<float> base_;
  source_vector<float> own_row_;  // working memory
  source_vector<float> base_row_;
};

}}}}  // namespace causeway::CAUSEWAY_ABI::comm::detail

#endif  // CAUSEWAY_COMM_OWN_PART_HPP
