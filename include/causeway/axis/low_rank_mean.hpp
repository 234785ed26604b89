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
#include <causeway/compress/message.hpp>
#include <causeway/compress/none.hpp>
#include <causeway/core/result.hpp>
#include <causeway/kernels/low_rank.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace axis {

namespace detail {

/// Models collective::Exchange. `begin` sends left factors, `turn` waits for their mean and sends right factors, `finish`
/// waits for theirs. The residual is what the result leaves out of this peer's own row, known when `finish` returns.
class low_rank_exchange {
  using mean = collective::split_mean<compress::as_message<compress::none>>;

 public:
  static constexpr std::string_view name = "low_rank_mean";
  static constexpr collective::exchange_traits traits{
      .bit_parity = true, .own_support = false, .residual = true, .counts = false, .stateful = true};

  explicit low_rank_exchange(std::uint32_t rank);

  result<void> begin(const collective::exchange_port& port, const collective::exchange_row& row,
                     const compress::message_context& ctx);

  result<void> turn(const collective::exchange_port& port, const collective::exchange_row& row,
                    const compress::message_context& ctx);

  result<void> finish(const collective::exchange_port& port, const collective::exchange_row& row,
                      const compress::message_context& ctx);

  void cancel();

  /// For rows of `size` values. Done by `begin`, too.
  void prepare(std::size_t size, std::span<const compress::matrix_range> matrices);

  /// The exchange before is over for everybody: the next one starts from its right factors. They stay where they are, as
  /// others may be given them.
  void keep();

  void serialize(auto& ar) { ar(right_); }
  /// What all peers have alike; after `prepare`.
  void shared(auto& ar) { ar(right_); }

 private:
  struct piece {
    kernels::low_rank_shape shape;
    std::size_t offset = 0;  ///< of the matrix in the row
    std::size_t left = 0;    ///< of its left factor in first_
    std::size_t right = 0;   ///< of its right factor in right_
  };
  using bounds = std::pair<std::ptrdiff_t, std::ptrdiff_t>;

  static std::span<const float> matrix(const piece& p, std::span<const float> row);
  std::span<float> left(const piece& p) { return std::span{first_}.subspan(p.left, p.shape.left_size()); }
  std::span<float> right(const piece& p) { return std::span{right_}.subspan(p.right, p.shape.right_size()); }

  /// Factors are rows of their own, without matrices.
  static compress::message_context plain(const compress::message_context& ctx);
  static collective::exchange_port second(const collective::exchange_port& port);

  /// Where nothing was left out the residual is zero; a peer that only listened has sent nothing of its matrices.
  void leave_residual(const collective::exchange_row& row);

  std::uint32_t rank_;
  std::vector<piece> pieces_;
  std::vector<bounds> rest_;
  std::size_t left_size_ = 0;
  std::vector<float> first_;  ///< left factors, then what is not factored
  std::vector<float> right_;  ///< of the round before: where the next one starts
  std::vector<float> next_;   ///< of this one
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

}}}  // namespace causeway::CAUSEWAY_ABI::axis

#ifndef CAUSEWAY_COMPILED
#include <causeway/axis/impl/low_rank_mean.ipp>
#endif

#endif  // CAUSEWAY_AXIS_LOW_RANK_MEAN_HPP
