// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_AXIS_IMPL_LOW_RANK_MEAN_IPP
#define CAUSEWAY_AXIS_IMPL_LOW_RANK_MEAN_IPP

#include <causeway/axis/low_rank_mean.hpp>

#include <algorithm>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace axis { namespace detail {

CAUSEWAY_DECL low_rank_exchange::low_rank_exchange(low_rank_use use) : use_{use} {}

CAUSEWAY_DECL void low_rank_exchange::keep() { std::copy(next_.begin(), next_.end(), right_.begin()); }

CAUSEWAY_DECL void low_rank_exchange::to_left_factors(std::span<const float> row, const compress::message_context& ctx) {
  prepare(row.size(), ctx.matrices);
  for (const piece& p : pieces_) kernels::low_rank_left(ctx.pool, p.shape, matrix(p, row), right(p), left(p));
  auto to = first_.begin() + static_cast<std::ptrdiff_t>(left_size_);
  for (const auto& [begin, end] : rest_) to = std::copy(row.begin() + begin, row.begin() + end, to);
}

CAUSEWAY_DECL result<void> low_rank_exchange::begin(const collective::exchange_port& port,
                                                    const collective::exchange_row& row,
                                                    const compress::message_context& ctx) {
  to_left_factors(row.values, ctx);
  ended_ = false;
  return first_mean_.begin(port, {.values = first_, .weight = row.weight}, ctx.plain());
}

CAUSEWAY_DECL result<void> low_rank_exchange::turn_factors(std::span<const float> row, thread_pool& pool) {
  next_.resize(right_.size());
  for (const piece& p : pieces_) {
    CAUSEWAY_TRY(kernels::low_rank_orthonormalise(left(p), p.shape.rows));
    kernels::low_rank_right(pool, p.shape, matrix(p, row), left(p), right_of_next(p));
  }
  return {};
}

CAUSEWAY_DECL result<void> low_rank_exchange::turn(const collective::exchange_port& port,
                                                   const collective::exchange_row& row,
                                                   const compress::message_context& ctx) {
  const collective::exchange_row first{.values = first_, .weight = row.weight};
  CAUSEWAY_TRY(first_mean_.turn(port, first, ctx.plain()));
  CAUSEWAY_TRY(first_mean_.finish(port, first, ctx.plain()));
  CAUSEWAY_TRY(turn_factors(row.values, ctx.pool));
  return second_mean_.begin(port.beside(port.transport), {.values = next_, .weight = row.weight}, ctx.plain());
}

CAUSEWAY_DECL result<void> low_rank_exchange::finish(const collective::exchange_port& port,
                                                     const collective::exchange_row& row,
                                                     const compress::message_context& ctx) {
  const collective::exchange_row factors{.values = next_, .weight = row.weight};
  CAUSEWAY_TRY(second_mean_.turn(port.beside(port.transport), factors, ctx.plain()));
  CAUSEWAY_TRY(second_mean_.finish(port.beside(port.transport), factors, ctx.plain()));
  expand_factors(row, ctx.pool);
  return {};
}

CAUSEWAY_DECL void low_rank_exchange::adopt(std::vector<float> sent, const collective::exchange_row& row,
                                            thread_pool& pool) {
  std::copy_n(factors_.begin(), left_size_, first_.begin());
  next_.assign(factors_.begin() + static_cast<std::ptrdiff_t>(left_size_), factors_.end());
  if (!std::exchange(ended_, true) && row.weight != 0 && !row.residual.empty()) {
    std::copy(sent.begin(), sent.end(), row.residual.begin());
    for (const piece& p : pieces_) expand_piece(p, sent, pool);
    leave_residual({.values = sent, .residual = row.residual, .weight = row.weight});
  }
  if (!use_.orthonormal) return;
  for (const piece& p : pieces_) kernels::to_unit_length(right_of_next(p), p.shape.columns, use_.epsilon);
}

CAUSEWAY_DECL void low_rank_exchange::note_factors() {
  ended_ = true;
  factors_.assign(first_.begin(), first_.begin() + static_cast<std::ptrdiff_t>(left_size_));
  factors_.insert(factors_.end(), next_.begin(), next_.end());
}

CAUSEWAY_DECL void low_rank_exchange::expand_piece(const piece& p, std::span<float> row, thread_pool& pool) {
  kernels::low_rank_expand(pool, p.shape, left(p), right_of_next(p), row.subspan(p.offset, p.shape.matrix_size()));
}

CAUSEWAY_DECL void low_rank_exchange::expand_factors(const collective::exchange_row& row, thread_pool& pool) {
  note_factors();
  std::copy(row.values.begin(), row.values.begin() + std::ssize(row.residual), row.residual.begin());
  for (const piece& p : pieces_) expand_piece(p, row.values, pool);
  auto from = first_.begin() + static_cast<std::ptrdiff_t>(left_size_);
  for (const auto& [begin, end] : rest_) {
    std::copy(from, from + (end - begin), row.values.begin() + begin);
    from += end - begin;
  }
  if (!row.residual.empty()) leave_residual(row);
  if (!use_.orthonormal) return;
  for (const piece& p : pieces_) {
    kernels::to_unit_length(right_of_next(p), p.shape.columns, use_.epsilon);
    expand_piece(p, row.values, pool);
  }
}

CAUSEWAY_DECL result<void> low_rank_exchange::step_alone(const collective::exchange_row& row,
                                                         const compress::message_context& ctx) {
  to_left_factors(row.values, ctx);
  CAUSEWAY_TRY(turn_factors(row.values, ctx.pool));
  expand_factors(row, ctx.pool);
  return {};
}

CAUSEWAY_DECL result<void> low_rank_exchange::alone(const collective::exchange_row& row,
                                                    const compress::message_context& ctx) {
  prepare(row.values.size(), ctx.matrices);
  std::fill(first_.begin(), first_.end(), 0.0F);
  next_ = right_;
  note_factors();
  return {};
}

CAUSEWAY_DECL void low_rank_exchange::cancel() {
  first_mean_.cancel();
  second_mean_.cancel();
}

CAUSEWAY_DECL std::span<const float> low_rank_exchange::matrix(const piece& p, std::span<const float> row) {
  return row.subspan(p.offset, p.shape.matrix_size());
}

CAUSEWAY_DECL kernels::low_rank_shape low_rank_exchange::shape_of(const compress::matrix_range& m) const {
  const std::size_t smaller = std::min(m.rows, m.columns);
  kernels::low_rank_shape shape{m.rows, m.columns, std::min(std::size_t{use_.rank}, smaller)};
  const bool gains = use_.rank <= smaller && shape.left_size() + shape.right_size() < shape.matrix_size();
  const bool factored = use_.orthonormal ? m.kind == parameter_kind::matrix : gains;
  if (!factored) shape.rank = 0;
  return shape;
}

CAUSEWAY_DECL void low_rank_exchange::prepare(std::size_t size, std::span<const compress::matrix_range> matrices) {
  pieces_.clear();
  rest_.clear();
  left_size_ = 0;
  std::size_t right_size = 0, covered = 0, rest_size = 0;
  const auto leave = [&](std::size_t begin, std::size_t end) {
    if (end > begin) rest_.emplace_back(begin, end);
    rest_size += end - begin;
  };
  for (const auto& m : matrices) {
    const kernels::low_rank_shape shape = shape_of(m);
    if (shape.rank == 0) continue;
    leave(covered, m.offset);
    covered = m.offset + shape.matrix_size();
    pieces_.push_back({shape, m.offset, left_size_, right_size});
    left_size_ += shape.left_size();
    right_size += shape.right_size();
  }
  leave(covered, size);
  first_.resize(left_size_ + rest_size);
  factors_.resize(left_size_ + right_size);
  if (right_.size() == right_size) return;
  right_.resize(right_size);
  for (std::size_t i = 0; i < pieces_.size(); ++i) {
    kernels::low_rank_start(pieces_[i].shape, i, right(pieces_[i]));
  }
}

CAUSEWAY_DECL void low_rank_exchange::leave_residual(const collective::exchange_row& row) {
  if (row.weight == 0) return;
  for (const piece& p : pieces_) {
    for (std::size_t i = p.offset; i < p.offset + p.shape.matrix_size(); ++i) row.residual[i] -= use_.taken * row.values[i];
  }
  for (const auto& [begin, end] : rest_) std::fill(row.residual.begin() + begin, row.residual.begin() + end, 0.0F);
}

}}}}  // namespace causeway::CAUSEWAY_ABI::axis::detail

#endif  // CAUSEWAY_AXIS_IMPL_LOW_RANK_MEAN_IPP
