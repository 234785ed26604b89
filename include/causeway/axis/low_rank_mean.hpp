// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_AXIS_LOW_RANK_MEAN_HPP
#define CAUSEWAY_AXIS_LOW_RANK_MEAN_HPP

// PowerSGD (Vogels et al. 2019, algorithm 1): of each matrix M only two thin factors travel. P = mean(M_i·Q), made
// orthonormal; Q = mean(M_iᵀ·P); the result is P·Qᵀ, and Q is where the next round starts. Both products are linear in M,
// so the factors can be averaged like any row. What is no matrix, or too small to gain, travels whole with the first
// factor.

#include <causeway/axis/parts.hpp>
#include <causeway/collective/exchange.hpp>
#include <causeway/collective/split_mean.hpp>
#include <causeway/compress/low_rank.hpp>
#include <causeway/compress/message.hpp>
#include <causeway/compress/none.hpp>
#include <causeway/core/result.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace causeway::inline CAUSEWAY_ABI::axis {

namespace detail {

/// Models collective::Exchange. `begin` sends left factors, `turn` waits for their mean and sends right factors, `finish`
/// waits for theirs. The residual is what the result leaves out of this peer's own row, known when `finish` returns.
class low_rank_exchange {
  using mean = collective::split_mean<compress::as_message<compress::none>>;

 public:
  static constexpr std::string_view name = "low_rank_mean";
  static constexpr collective::exchange_traits traits{
      .bit_parity = true, .own_support = false, .residual = true, .counts = false, .stateful = true};

  explicit low_rank_exchange(std::uint32_t rank) : rank_{rank} {}

  result<void> begin(const collective::exchange_port& port, const collective::exchange_row& row,
                     const compress::message_context& ctx) {
    lay_out(row.values.size(), ctx);
    for (const piece& p : pieces_) {
      compress::low_rank_left(ctx.pool, p.shape, matrix(p, row.values), right(p), left(p));
    }
    auto to = first_.begin() + static_cast<std::ptrdiff_t>(left_size_);
    for (const auto& [begin, end] : rest_) to = std::copy(row.values.begin() + begin, row.values.begin() + end, to);
    return first_mean_.begin(port, {.values = first_, .weight = row.weight}, plain(ctx));
  }

  result<void> turn(const collective::exchange_port& port, const collective::exchange_row& row,
                    const compress::message_context& ctx) {
    const collective::exchange_row first{.values = first_, .weight = row.weight};
    CAUSEWAY_TRY(first_mean_.turn(port, first, plain(ctx)));
    CAUSEWAY_TRY(first_mean_.finish(port, first, plain(ctx)));
    next_.resize(right_.size());
    for (const piece& p : pieces_) {
      CAUSEWAY_TRY(compress::low_rank_orthonormalise(left(p), p.shape.rows));
      compress::low_rank_right(ctx.pool, p.shape, matrix(p, row.values), left(p),
                               std::span{next_}.subspan(p.right, p.shape.right_size()));
    }
    return second_mean_.begin(second(port), {.values = next_, .weight = row.weight}, plain(ctx));
  }

  result<void> finish(const collective::exchange_port& port, const collective::exchange_row& row,
                      const compress::message_context& ctx) {
    const collective::exchange_row factors{.values = next_, .weight = row.weight};
    CAUSEWAY_TRY(second_mean_.turn(second(port), factors, plain(ctx)));
    CAUSEWAY_TRY(second_mean_.finish(second(port), factors, plain(ctx)));
    std::swap(right_, next_);
    std::copy(row.values.begin(), row.values.begin() + std::ssize(row.residual), row.residual.begin());
    for (const piece& p : pieces_) {
      compress::low_rank_expand(ctx.pool, p.shape, left(p), right(p), row.values.subspan(p.offset, p.shape.matrix_size()));
    }
    auto from = first_.begin() + static_cast<std::ptrdiff_t>(left_size_);
    for (const auto& [begin, end] : rest_) {
      std::copy(from, from + (end - begin), row.values.begin() + begin);
      from += end - begin;
    }
    if (!row.residual.empty()) leave_residual(row);
    return {};
  }

  void cancel() {
    first_mean_.cancel();
    second_mean_.cancel();
  }

  void serialize(auto& ar) { ar(right_); }

 private:
  struct piece {
    compress::low_rank_shape shape;
    std::size_t offset = 0;  ///< of the matrix in the row
    std::size_t left = 0;    ///< of its left factor in first_
    std::size_t right = 0;   ///< of its right factor in right_
  };
  using bounds = std::pair<std::ptrdiff_t, std::ptrdiff_t>;

  static std::span<const float> matrix(const piece& p, std::span<const float> row) {
    return row.subspan(p.offset, p.shape.matrix_size());
  }
  std::span<float> left(const piece& p) { return std::span{first_}.subspan(p.left, p.shape.left_size()); }
  std::span<float> right(const piece& p) { return std::span{right_}.subspan(p.right, p.shape.right_size()); }

  /// Factors are rows of their own, without matrices.
  static compress::message_context plain(const compress::message_context& ctx) {
    return {.pool = ctx.pool, .seed = ctx.seed, .own_seed = ctx.own_seed, .round = ctx.round};
  }
  static collective::exchange_port second(const collective::exchange_port& port) {
    net::message_id id = port.id;
    id.channel += 8;  // the first mean uses fewer
    return {port.transport, id, port.options};
  }

  void lay_out(std::size_t size, const compress::message_context& ctx) {
    pieces_.clear();
    rest_.clear();
    left_size_ = 0;
    std::size_t right_size = 0, covered = 0, rest_size = 0;
    const auto leave = [&](std::size_t begin, std::size_t end) {
      if (end > begin) rest_.emplace_back(begin, end);
      rest_size += end - begin;
    };
    for (const auto& m : ctx.matrices) {
      const compress::low_rank_shape shape{m.rows, m.columns, rank_};
      const bool gains =
          rank_ <= std::min(m.rows, m.columns) && shape.left_size() + shape.right_size() < shape.matrix_size();
      if (!gains) continue;
      leave(covered, m.offset);
      covered = m.offset + shape.matrix_size();
      pieces_.push_back({shape, m.offset, left_size_, right_size});
      left_size_ += shape.left_size();
      right_size += shape.right_size();
    }
    leave(covered, size);
    first_.resize(left_size_ + rest_size);
    if (right_.size() == right_size) return;
    right_.resize(right_size);
    for (std::size_t i = 0; i < pieces_.size(); ++i) {
      compress::low_rank_start(pieces_[i].shape, i, right(pieces_[i]));
    }
  }

  /// Where nothing was left out the residual is zero; a peer that only listened has sent nothing of its matrices.
  void leave_residual(const collective::exchange_row& row) {
    if (row.weight == 0) return;
    for (const piece& p : pieces_) {
      for (std::size_t i = p.offset; i < p.offset + p.shape.matrix_size(); ++i) row.residual[i] -= row.values[i];
    }
    for (const auto& [begin, end] : rest_) std::fill(row.residual.begin() + begin, row.residual.begin() + end, 0.0F);
  }

  std::uint32_t rank_;
  std::vector<piece> pieces_;
  std::vector<bounds> rest_;
  std::size_t left_size_ = 0;
  std::vector<float> first_;  ///< left factors, then what is not factored
  std::vector<float> right_;  ///< of the round before: where the next one starts
  std::vector<float> next_;
  mean first_mean_;
  mean second_mean_;
};

}  // namespace detail

/// PowerSGD's mean, of rank `rank`: for a matrix of r×c values rank·(r + c) travel. Use it with gradients or
/// pseudo-gradients, and error_feedback: the residual is row − result (the paper's e ← Δ − P·Qᵀ). Bytes: those of
/// split_mean for the factors.
struct low_rank_mean {
  using type = detail::low_rank_exchange;
  static constexpr part decides = part::exchange;
  static constexpr collective::exchange_traits traits = type::traits;

  std::uint32_t rank = 4;

  [[nodiscard]] type make(std::size_t = 0) const { return type{rank}; }
};
static_assert(collective::Exchange<detail::low_rank_exchange, compress::message_context>);

}  // namespace causeway::inline CAUSEWAY_ABI::axis

#endif  // CAUSEWAY_AXIS_LOW_RANK_MEAN_HPP
