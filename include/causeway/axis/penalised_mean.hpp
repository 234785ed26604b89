// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_AXIS_PENALISED_MEAN_HPP
#define CAUSEWAY_AXIS_PENALISED_MEAN_HPP

// EDiT's pseudo-gradient penalty (Cheng et al. 2024, arXiv 2412.07210), against spikes of the loss: a row that is too long
// for its peer counts for nothing, longer rows count less than shorter ones, and what comes out is clipped. As its authors'
// code has it (dlrover, atorch/local_sgd).

#include <causeway/axis/parts.hpp>
#include <causeway/collective/exchange.hpp>
#include <causeway/collective/split_mean.hpp>
#include <causeway/compress/message.hpp>
#include <causeway/compress/none.hpp>
#include <causeway/core/result.hpp>
#include <causeway/core/thread_pool.hpp>
#include <causeway/net/transport.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace axis {

struct penalty_options {
  bool eliminate = true;        ///< rows that are outliers
  double decay = 0.02;          ///< α of the moving mean and variance of a peer's own norms, in (0, 1)
  std::uint32_t warm_up = 120;  ///< norms before any is an outlier, at least 2
  double threshold = 3;         ///< standard deviations above the mean
  double temperature = 1;       ///< of the softmax, above 0
  double clip = 10;             ///< φ, the largest norm of the result; 0: any
};

/// Moving mean and variance of a series, and whether a value is an outlier in it:
///   z(x) = (x − mean)/√variance;  x is one if z(x) > threshold · max(1, deviation of the last z's).
/// Then d = x − mean; mean += α·d; variance = (1−α)(variance + α·d·(x − mean)). None among the first `warm_up` is one.
class outlier_detector {
 public:
  CAUSEWAY_DECL [[nodiscard]] bool is_outlier(double value, const penalty_options& o) const;
  CAUSEWAY_DECL void update(double value, const penalty_options& o);

  void serialize(auto& ar) { ar(mean_, variance_, count_, scores_); }

 private:
  CAUSEWAY_DECL [[nodiscard]] double score(double value, const penalty_options& o) const;

  double mean_ = 0;
  double variance_ = 0;
  std::uint64_t count_ = 0;
  std::vector<double> scores_;  ///< the last `warm_up` of them, oldest first
};

namespace detail {

/// Models collective::Exchange. `begin` sends the row's norm, `turn` waits for the others' and sends the weighted row,
/// `finish` waits for the sum. A norm is taken into the statistics when the next round begins, so that a second attempt of
/// one finds them as the first did.
class penalised_exchange {
  using mean = collective::split_mean<compress::as_message<compress::none>>;

 public:
  static constexpr std::string_view name = "penalised_mean";
  static constexpr collective::exchange_traits traits{
      .bit_parity = true, .own_support = false, .residual = false, .counts = false, .stateful = true};

  CAUSEWAY_DECL explicit penalised_exchange(penalty_options options);

  CAUSEWAY_DECL result<void> begin(const collective::exchange_port& port, const collective::exchange_row& row,
                                   const compress::message_context& ctx);
  CAUSEWAY_DECL result<void> turn(const collective::exchange_port& port, const collective::exchange_row& row,
                                  const compress::message_context& ctx);
  CAUSEWAY_DECL result<void> finish(const collective::exchange_port& port, const collective::exchange_row& row,
                                    const compress::message_context& ctx);
  /// All three for a peer that is its whole group: it has nobody to send to.
  CAUSEWAY_DECL result<void> alone(const collective::exchange_row& row, const compress::message_context& ctx);
  CAUSEWAY_DECL void cancel();

  void serialize(auto& ar) { ar(detector_, has_norm_, norm_, round_); }

 private:
  // In place of a norm: of a row that counts as zeros, and of a peer that only listens.
  static constexpr float out = -1, silent = -2;

  CAUSEWAY_DECL [[nodiscard]] result<void> check() const;
  /// Whether this peer's row counts.
  CAUSEWAY_DECL [[nodiscard]] result<bool> judge(const collective::exchange_row& row, const compress::message_context& ctx);
  CAUSEWAY_DECL void clip(std::span<float> row, thread_pool& pool) const;
  CAUSEWAY_DECL [[nodiscard]] float weight_of(net::peer_index self) const;
  CAUSEWAY_DECL [[nodiscard]] collective::exchange_row weighted(const collective::exchange_row& row);

  penalty_options options_;
  outlier_detector detector_;
  bool has_norm_ = false;  ///< that the statistics do not have yet
  double norm_ = 0;
  std::uint64_t round_ = 0;      ///< that it is of
  bool usable_ = true;           ///< this peer's row is finite
  std::vector<float> norms_;     ///< every peer's at its place
  std::vector<float> weighted_;  ///< this peer's row, as it is sent
  mean norm_mean_;
  mean row_mean_;
};

}  // namespace detail

/// Σ w_i x_i with w = softmax(−|x_i| / temperature) over the peers whose row is no outlier among their own of before, times
/// min(1, φ/(|·| + 1e-6)); zeros where all rows are outliers. Whatever rows count otherwise (samples), a peer counts here
/// by its norm alone, or, with a weight of 0, not at all. One for each fragment: EDiT's are single layers,
/// axis::consecutive{1}. Bytes: those of split_mean, and 4 a peer; 4 latencies. Use axis::outer_unless_zero with it.
struct penalised_mean {
  using type = detail::penalised_exchange;
  static constexpr part decides = part::exchange;
  static constexpr collective::exchange_traits traits = type::traits;

  penalty_options options{};

  [[nodiscard]] type make(std::size_t = 0) const { return type{options}; }
};
static_assert(collective::Exchange<detail::penalised_exchange, compress::message_context>);

}}}  // namespace causeway::CAUSEWAY_ABI::axis

#ifndef CAUSEWAY_COMPILED
#include <causeway/axis/impl/penalised_mean.ipp>
#endif

#endif  // CAUSEWAY_AXIS_PENALISED_MEAN_HPP
