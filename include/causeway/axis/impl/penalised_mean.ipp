// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_AXIS_IMPL_PENALISED_MEAN_IPP
#define CAUSEWAY_AXIS_IMPL_PENALISED_MEAN_IPP

#include <causeway/axis/penalised_mean.hpp>
#include <causeway/kernels/elementwise.hpp>
#include <causeway/kernels/reduce.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace axis {

CAUSEWAY_DECL double outlier_detector::score(double value, const penalty_options& o) const {
  return variance_ == 0 || count_ < o.warm_up ? 0 : (value - mean_) / std::sqrt(variance_);
}

CAUSEWAY_DECL bool outlier_detector::is_outlier(double value, const penalty_options& o) const {
  if (count_ < o.warm_up || scores_.size() < 2) return false;
  const auto n = static_cast<double>(scores_.size());
  const double middle = std::accumulate(scores_.begin(), scores_.end(), 0.0) / n;
  double squares = 0;
  for (const double z : scores_) squares += (z - middle) * (z - middle);
  return score(value, o) > o.threshold * std::max(1.0, std::sqrt(squares / (n - 1)));
}

CAUSEWAY_DECL void outlier_detector::update(double value, const penalty_options& o) {
  ++count_;
  const double before = value - mean_;
  mean_ += o.decay * before;
  variance_ = (1 - o.decay) * (variance_ + o.decay * before * (value - mean_));
  scores_.push_back(score(value, o));
  if (scores_.size() > o.warm_up) scores_.erase(scores_.begin());
}

}}}  // namespace causeway::CAUSEWAY_ABI::axis

namespace causeway { inline namespace CAUSEWAY_ABI { namespace axis { namespace detail {

CAUSEWAY_DECL penalised_exchange::penalised_exchange(penalty_options options) : options_{options} {}

CAUSEWAY_DECL result<void> penalised_exchange::check() const {
  const penalty_options& o = options_;
  if (o.decay > 0 && o.decay < 1 && o.warm_up >= 2 && o.threshold > 0 && o.temperature > 0 && o.clip >= 0) return {};
  return fail(errc::invalid_argument, "penalised_mean",
              "needs a decay between 0 and 1, a warm-up of at least 2 norms, a threshold and a temperature above 0, and a "
              "clip of 0 or more");
}

CAUSEWAY_DECL result<bool> penalised_exchange::judge(const collective::exchange_row& row,
                                                     const compress::message_context& ctx) {
  CAUSEWAY_TRY(check());
  if (has_norm_ && round_ != ctx.round) detector_.update(norm_, options_);
  norm_ = kernels::euclidean_norm(ctx.pool, row.values);
  // What is not finite goes with its row, which all refuse; it is nothing to learn from.
  usable_ = norm_ <= double{std::numeric_limits<float>::max()};
  has_norm_ = usable_ && row.weight > 0;
  round_ = ctx.round;
  return has_norm_ && !(options_.eliminate && detector_.is_outlier(norm_, options_));
}

CAUSEWAY_DECL void penalised_exchange::clip(std::span<float> row, thread_pool& pool) const {
  if (options_.clip == 0) return;
  const double factor = std::min(1.0, options_.clip / (kernels::euclidean_norm(pool, row) + 1e-6));
  kernels::scale(pool, row.data(), static_cast<float>(factor), static_cast<std::int64_t>(row.size()));
}

CAUSEWAY_DECL result<void> penalised_exchange::alone(const collective::exchange_row& row,
                                                     const compress::message_context& ctx) {
  CAUSEWAY_ASSIGN(const bool counts, judge(row, ctx));
  if (counts) {
    clip(row.values, ctx.pool);
  } else if (usable_) {
    std::fill(row.values.begin(), row.values.end(), 0.0F);
  }
  return {};
}

CAUSEWAY_DECL result<void> penalised_exchange::begin(const collective::exchange_port& port,
                                                     const collective::exchange_row& row,
                                                     const compress::message_context& ctx) {
  CAUSEWAY_ASSIGN(const bool counts, judge(row, ctx));
  norms_.assign(port.transport.size(), 0.0F);
  norms_[port.transport.self()] = row.weight == 0 ? silent : counts ? static_cast<float>(norm_) : out;
  return norm_mean_.begin(port, {.values = norms_}, ctx.plain());
}

/// Of this peer's row in a mean over those that do not only listen: times their number.
CAUSEWAY_DECL float penalised_exchange::weight_of(net::peer_index self) const {
  double least = std::numeric_limits<double>::infinity(), sum = 0, speakers = 0;
  for (const float norm : norms_) {
    if (norm >= 0) least = std::min(least, double{norm});
    if (norm > (out + silent) / 2) ++speakers;
  }
  const auto part = [&](float norm) { return norm < 0 ? 0.0 : std::exp((least - double{norm}) / options_.temperature); };
  for (const float norm : norms_) sum += part(norm);
  return sum > 0 ? static_cast<float>(speakers * part(norms_[self]) / sum) : 0.0F;
}

CAUSEWAY_DECL collective::exchange_row penalised_exchange::weighted(const collective::exchange_row& row) {
  return {.values = weighted_, .weight = row.weight > 0 ? 1.0F : 0.0F, .refused = row.refused};
}

CAUSEWAY_DECL result<void> penalised_exchange::turn(const collective::exchange_port& port,
                                                    const collective::exchange_row& row,
                                                    const compress::message_context& ctx) {
  const collective::exchange_row norms{.values = norms_};
  CAUSEWAY_TRY(norm_mean_.turn(port, norms, ctx.plain()));
  CAUSEWAY_TRY(norm_mean_.finish(port, norms, ctx.plain()));
  for (float& norm : norms_) norm *= static_cast<float>(norms_.size());
  weighted_.assign(row.values.begin(), row.values.end());
  if (usable_) {
    kernels::scale(ctx.pool, weighted_.data(), weight_of(port.transport.self()),
                   static_cast<std::int64_t>(weighted_.size()));
  }
  return row_mean_.begin(port.beside(port.transport), weighted(row), ctx.plain());
}

CAUSEWAY_DECL result<void> penalised_exchange::finish(const collective::exchange_port& port,
                                                      const collective::exchange_row& row,
                                                      const compress::message_context& ctx) {
  CAUSEWAY_TRY(row_mean_.turn(port.beside(port.transport), weighted(row), ctx.plain()));
  CAUSEWAY_TRY(row_mean_.finish(port.beside(port.transport), weighted(row), ctx.plain()));
  std::copy(weighted_.begin(), weighted_.end(), row.values.begin());
  clip(row.values, ctx.pool);
  return {};
}

CAUSEWAY_DECL void penalised_exchange::cancel() {
  norm_mean_.cancel();
  row_mean_.cancel();
}

}}}}  // namespace causeway::CAUSEWAY_ABI::axis::detail

#endif  // CAUSEWAY_AXIS_IMPL_PENALISED_MEAN_IPP
