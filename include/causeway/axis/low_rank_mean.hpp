// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_AXIS_LOW_RANK_MEAN_HPP
#define CAUSEWAY_AXIS_LOW_RANK_MEAN_HPP

// PowerSGD (Vogels et al. 2019, algorithm 1): of each matrix M only two thin factors travel. P = mean(M_i·Q), made
// orthonormal; Q = mean(M_iᵀ·P); the result is P·Qᵀ, and Q is where the next round starts. Both products are linear in M,
// so the factors can be averaged like any row. What is no matrix, or too small to gain, travels whole with the first
// factor. Dion (Ahn, Xu et al. 2025) sends the same factors of its momentum, and makes another step of them.

#include <causeway/axis/parts.hpp>
#include <causeway/collective/exchange.hpp>
#include <causeway/collective/split_mean.hpp>
#include <causeway/compress/message.hpp>
#include <causeway/compress/none.hpp>
#include <causeway/core/result.hpp>
#include <causeway/core/thread_pool.hpp>
#include <causeway/kernels/low_rank.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace axis {

namespace detail {

/// What becomes of a matrix whose factors are P, orthonormal, and R, all peers' mean.
struct low_rank_use {
  std::uint32_t rank = 4;
  float taken = 1;           ///< of P·Rᵀ leaves what this peer keeps: the residual is row − taken·P·Rᵀ
  bool orthonormal = false;  ///< the result is P·Qᵀ with Q = R, each vector over its length + epsilon; else P·Rᵀ
  float epsilon = 1e-8F;
};

/// Models collective::Exchange. `begin` sends left factors, `turn` waits for their mean and sends right factors, `finish`
/// waits for theirs. The residual is what the result leaves out of this peer's own row, known when `finish` returns.
class low_rank_exchange {
  using mean = collective::split_mean<compress::as_message<compress::none>>;

 public:
  static constexpr std::string_view name = "low_rank_mean";
  static constexpr collective::exchange_traits traits{
      .bit_parity = true, .own_support = false, .residual = true, .counts = false, .stateful = true};

  CAUSEWAY_DECL explicit low_rank_exchange(low_rank_use use);

  CAUSEWAY_DECL result<void> begin(const collective::exchange_port& port, const collective::exchange_row& row,
                                   const compress::message_context& ctx);

  CAUSEWAY_DECL result<void> turn(const collective::exchange_port& port, const collective::exchange_row& row,
                                  const compress::message_context& ctx);

  CAUSEWAY_DECL result<void> finish(const collective::exchange_port& port, const collective::exchange_row& row,
                                    const compress::message_context& ctx);

  CAUSEWAY_DECL void cancel();

  /// For a peer that is its whole group: its row stays as it is, and the next exchange starts where this one would have.
  CAUSEWAY_DECL result<void> alone(const collective::exchange_row& row, const compress::message_context& ctx);

  /// After `finish`: what all have of its result beside the row, left factors and then right ones.
  [[nodiscard]] std::span<float> factors() noexcept { return factors_; }
  /// Where the exchange did not come to its end here, but at another peer, whose result is in row.values and `factors()`:
  /// all else is as after `finish`. `sent`: what this peer's row was; with a weight of 0 it sent none.
  CAUSEWAY_DECL void adopt(std::vector<float> sent, const collective::exchange_row& row, thread_pool& pool);

  /// For rows of `size` values. Done by `begin`, too.
  CAUSEWAY_DECL void prepare(std::size_t size, std::span<const compress::matrix_range> matrices);

  /// The exchange before is over for everybody: the next one starts from its right factors. They stay where they are, as
  /// others may be given them.
  CAUSEWAY_DECL void keep();

  void serialize(auto& ar) { ar(right_); }
  /// What all peers have alike; after `prepare`.
  void shared(auto& ar) { ar(right_); }

 protected:
  /// All of it for a peer that is its whole group.
  CAUSEWAY_DECL result<void> step_alone(const collective::exchange_row& row, const compress::message_context& ctx);

 private:
  struct piece {
    kernels::low_rank_shape shape;
    std::size_t offset = 0;  ///< of the matrix in the row
    std::size_t left = 0;    ///< of its left factor in first_
    std::size_t right = 0;   ///< of its right factor in right_
  };
  using bounds = std::pair<std::ptrdiff_t, std::ptrdiff_t>;

  CAUSEWAY_DECL static std::span<const float> matrix(const piece& p, std::span<const float> row);
  std::span<float> left(const piece& p) { return std::span{first_}.subspan(p.left, p.shape.left_size()); }
  std::span<float> right(const piece& p) { return std::span{right_}.subspan(p.right, p.shape.right_size()); }
  std::span<float> right_of_next(const piece& p) { return std::span{next_}.subspan(p.right, p.shape.right_size()); }

  /// How a matrix is factored; rank 0: it travels whole.
  CAUSEWAY_DECL [[nodiscard]] kernels::low_rank_shape shape_of(const compress::matrix_range& m) const;
  CAUSEWAY_DECL void to_left_factors(std::span<const float> row, const compress::message_context& ctx);
  /// Left factors to orthonormal ones, and this peer's right factors by them.
  CAUSEWAY_DECL result<void> turn_factors(std::span<const float> row, thread_pool& pool);
  /// The result and the residual from both factors; `first_` has what is not factored.
  CAUSEWAY_DECL void expand_factors(const collective::exchange_row& row, thread_pool& pool);
  CAUSEWAY_DECL void expand_piece(const piece& p, std::span<float> row, thread_pool& pool);
  CAUSEWAY_DECL void note_factors();

  /// Where nothing was left out the residual is zero; a peer that only listened has sent nothing of its matrices.
  CAUSEWAY_DECL void leave_residual(const collective::exchange_row& row);

  low_rank_use use_;
  std::vector<piece> pieces_;
  std::vector<bounds> rest_;
  std::size_t left_size_ = 0;
  std::vector<float> first_;    ///< left factors, then what is not factored
  std::vector<float> right_;    ///< of the round before: where the next one starts
  std::vector<float> next_;     ///< of this one
  std::vector<float> factors_;  ///< P and R of the result, thin: rank·(rows + columns) values a matrix
  bool ended_ = false;          ///< the exchange begun last
  mean first_mean_;
  mean second_mean_;
};

/// One that is more than a mean: it makes its step of a single peer's row, too.
struct dion_exchange : low_rank_exchange {
  static constexpr std::string_view name = "dion_mean";
  using low_rank_exchange::low_rank_exchange;
  result<void> alone(const collective::exchange_row& row, const compress::message_context& ctx) {
    return step_alone(row, ctx);
  }
};

}  // namespace detail

/// PowerSGD's mean, of rank `rank`: for a matrix of r×c values rank·(r + c) travel. Use it with gradients or
/// pseudo-gradients, and error_feedback: the residual is row − result (the paper's e ← Δ − P·Qᵀ). Bytes: those of
/// split_mean for the factors. A projection: of the mean matrix's |M|² never more is lost than there was, and in each round
/// of the same matrix no more than in the one before, at last at most 1 - rank / min(r, c).
struct low_rank_mean {
  using type = detail::low_rank_exchange;
  static constexpr part decides = part::exchange;
  static constexpr collective::exchange_traits traits = type::traits;

  std::uint32_t rank = 4;

  [[nodiscard]] type make(std::size_t = 0) const { return type{{.rank = rank}}; }
};

/// Dion's exchange: of rows B_i = M_i + g_i (gradients with error_feedback{1, 1}) it makes P·Qᵀ for the matrices of hidden
/// layers: P = mean(B_i·Q'), made orthonormal, Q' from the step before; R = mean(B_iᵀ·P); Q = R, each vector over its
/// length; and leaves M_i = B_i − (1−μ)·P·Rᵀ behind. The rest is the mean of the gradients. Peers' momenta differ, their
/// mean is the momentum that one would have for all, so that parameters are those of optim::dion on mean gradients.
///
/// M_i loses (1−μ)·P·Rᵀ: for one peer |M|² = |B|² − (1−μ²)·|R|², which never grows. The result has no unit: give the
/// trainer optim::dion with `given`, and no clipping. Bytes: those of split_mean for the factors, also where a matrix has
/// fewer.
struct dion_mean {
  using type = detail::dion_exchange;
  static constexpr part decides = part::exchange;
  static constexpr collective::exchange_traits traits = type::traits;

  std::uint32_t rank = 64;  ///< at most; a matrix has no more than its smaller side
  float momentum = 0.95F;   ///< μ

  [[nodiscard]] type make(std::size_t = 0) const {
    return type{{.rank = rank, .taken = 1 - momentum, .orthonormal = true}};
  }
};
static_assert(collective::Exchange<detail::low_rank_exchange, compress::message_context>);

}}}  // namespace causeway::CAUSEWAY_ABI::axis

#ifndef CAUSEWAY_COMPILED
#include <causeway/axis/impl/low_rank_mean.ipp>
#endif

#endif  // CAUSEWAY_AXIS_LOW_RANK_MEAN_HPP
