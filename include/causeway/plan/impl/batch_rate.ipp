// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PLAN_IMPL_BATCH_RATE_IPP
#define CAUSEWAY_PLAN_IMPL_BATCH_RATE_IPP

#include <causeway/plan/batch_rate.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan { namespace detail {

/// For which knees which measurements are on the slope is a matter of their order: the least squares of each case, with the
/// knee where both lines meet, or at the edge of the case.
class pace_fit {
 public:
  pace_fit(std::span<const double> batches, std::span<const double> per_second, const device_pace& least)
      : batches_{batches}, per_second_{per_second}, least_{least} {}

  device_pace best() {
    std::vector<double> edges{least_.knee};
    for (const double b : batches_) {
      if (b > least_.knee) edges.push_back(b);
    }
    std::sort(edges.begin(), edges.end());
    for (const double edge : edges) at_knee(edge);
    for (std::size_t i = 0; i < edges.size(); ++i) {
      between(edges[i], i + 1 < edges.size() ? edges[i + 1] : std::numeric_limits<double>::infinity());
    }
    return best_;
  }

 private:
  void see(const device_pace& p) {
    double error = 0;
    for (std::size_t i = 0; i < batches_.size(); ++i) {
      const double miss = p.per_second(batches_[i]) - per_second_[i];
      error += miss * miss;
    }
    if (error < error_) error_ = error, best_ = p;
  }

  /// The best pace with this knee: linear least squares of one number.
  void at_knee(double knee) {
    double up = 0, down = 0;
    for (std::size_t i = 0; i < batches_.size(); ++i) {
      const double form = std::min(batches_[i] / knee, 1.0);
      up += form * per_second_[i];
      down += form * form;
    }
    see({knee, std::max(up / down, least_.full)});
  }

  /// The best slope and the best plateau, each of its own measurements, if the knee is then in [low, high].
  void between(double low, double high) {
    double up = 0, down = 0, sum = 0, many = 0;
    for (std::size_t i = 0; i < batches_.size(); ++i) {
      if (batches_[i] <= low) {
        up += batches_[i] * per_second_[i];
        down += batches_[i] * batches_[i];
      } else {
        sum += per_second_[i];
        ++many;
      }
    }
    if (down == 0 || up == 0 || many == 0) return;
    const double full = std::max(sum / many, least_.full), knee = full / (up / down);
    if (knee >= low && knee <= high) see({knee, full});
  }

  std::span<const double> batches_, per_second_;
  device_pace least_, best_;
  double error_ = std::numeric_limits<double>::infinity();
};

/// Of rising `at` the place before `x` and how far x is from it to the next, both within.
inline std::pair<std::size_t, double> place_in(const std::vector<double>& at, double x) {
  if (at.size() < 2 || x <= at.front()) return {0, 0.0};
  if (x >= at.back()) return {at.size() - 2, 1.0};
  const auto next = static_cast<std::size_t>(std::upper_bound(at.begin(), at.end(), x) - at.begin());
  return {next - 1, (x - at[next - 1]) / (at[next] - at[next - 1])};
}

/// Batches of devices that take equally long, and steps from there.
class batch_search {
 public:
  batch_search(const batch_quality& quality, std::span<const device_pace> paces, std::span<const std::uint32_t> most,
               double mbit_s)
      : quality_{quality}, paces_{paces}, most_{most}, mbit_s_{mbit_s} {}

  std::vector<std::uint32_t> run() {
    std::vector<std::pair<double, std::vector<std::uint32_t>>> starts;
    for (std::size_t d = 0; d < paces_.size(); ++d) {
      for (std::uint32_t b = 1; b <= most_[d]; ++b) {
        auto even = within(paces_[d].seconds(b));
        starts.emplace_back(rated(even), std::move(even));
      }
    }
    std::sort(starts.begin(), starts.end());
    starts.erase(std::unique(starts.begin(), starts.end()), starts.end());
    std::pair<double, std::vector<std::uint32_t>> best{std::numeric_limits<double>::infinity(), {}};
    for (std::size_t i = 0; i < std::min(starts.size(), most_starts); ++i) best = std::min(best, improved(starts[i]));
    return best.second;
  }

 private:
  static constexpr std::size_t most_starts = 8;

  [[nodiscard]] double rated(const std::vector<std::uint32_t>& batches) const {
    return batch_objective(quality_, paces_, batches, mbit_s_);
  }

  [[nodiscard]] std::vector<std::uint32_t> within(double seconds) const {
    std::vector<std::uint32_t> batches;
    for (std::size_t d = 0; d < paces_.size(); ++d) {
      const double many = std::clamp(std::nearbyint(seconds * paces_[d].full), 1.0, double(most_[d]));
      batches.push_back(static_cast<std::uint32_t>(many));
    }
    return batches;
  }

  [[nodiscard]] std::pair<double, std::vector<std::uint32_t>> improved(
      std::pair<double, std::vector<std::uint32_t>> at) const {
    for (bool better = true; better;) {
      better = false;
      const std::vector<std::uint32_t> from = at.second;
      for (std::size_t d = 0; d < from.size(); ++d) {
        for (const std::int64_t step : {-16, -4, -1, 1, 4, 16}) {
          const std::int64_t moved = from[d] + step;
          if (moved < 1 || moved > most_[d]) continue;
          auto next = from;
          next[d] = static_cast<std::uint32_t>(moved);
          if (const double r = rated(next); r < at.first) at = {r, std::move(next)}, better = true;
        }
      }
    }
    return at;
  }

  const batch_quality& quality_;
  std::span<const device_pace> paces_;
  std::span<const std::uint32_t> most_;
  double mbit_s_;
};

}}}}  // namespace causeway::CAUSEWAY_ABI::plan::detail

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan {

CAUSEWAY_DECL device_pace fit_pace(std::span<const double> batches, std::span<const double> per_second,
                                   const device_pace& least) {
  CAUSEWAY_EXPECT(!batches.empty() && batches.size() == per_second.size());
  return detail::pace_fit{batches, per_second, least}.best();
}

CAUSEWAY_DECL double batch_quality::at(double batch, double mbit) const {
  if (worse.empty()) return 0;
  CAUSEWAY_EXPECT(worse.size() == batches.size() * mbit_s.size());
  const auto [row, down] = detail::place_in(batches, batch);
  const auto [column, right] = detail::place_in(mbit_s, mbit);
  const auto value = [&](std::size_t r, std::size_t c) {
    return worse[std::min(r, batches.size() - 1) * mbit_s.size() + std::min(c, mbit_s.size() - 1)];
  };
  const double above = (1 - right) * value(row, column) + right * value(row, column + 1);
  const double below = (1 - right) * value(row + 1, column) + right * value(row + 1, column + 1);
  return (1 - down) * above + down * below;
}

CAUSEWAY_DECL double sent_bytes(const batch_rate_task& task, double share) {
  constexpr double head = 47, segment = 1472, segment_head = 66;
  double sum = 0;
  for (const std::uint64_t size : task.tensors) {
    const double values = std::max(1.0, std::ceil(share * static_cast<double>(size)));
    const double bytes = head + (task.value_bytes + task.place_bytes) * values;
    sum += bytes + segment_head * std::ceil((bytes + segment - 1) / segment);
  }
  return sum;
}

CAUSEWAY_DECL double pass_seconds(std::span<const device_pace> paces, std::span<const std::uint32_t> batches) {
  double sum = 0;
  for (std::size_t d = 0; d < paces.size(); ++d) sum += paces[d].seconds(batches[d]);
  return 1.5 * sum / static_cast<double>(paces.size());
}

CAUSEWAY_DECL double like_measured(const batch_rate_task& task, std::span<const device_pace> paces,
                                   std::span<const std::uint32_t> batches, double mbit_s) {
  const double all = std::accumulate(batches.begin(), batches.end(), 0.0);
  double per_second = 0;
  for (std::size_t d = 0; d < paces.size(); ++d) per_second += paces[d].per_second(batches[d] / all * task.quality_batch);
  const double seconds = 1.5 * task.quality_batch / per_second;
  const double needed = 8e-6 * sent_bytes(task, task.quality_share) / seconds;
  return mbit_s * task.quality_mbit_s / needed;
}

CAUSEWAY_DECL double batch_objective(const batch_quality& quality, std::span<const device_pace> paces,
                                     std::span<const std::uint32_t> batches, double mbit_s) {
  double all = 0, slowest = 0, sum = 0, squares = 0;
  for (std::size_t d = 0; d < paces.size(); ++d) {
    const double seconds = paces[d].seconds(batches[d]);
    all += batches[d];
    slowest = std::max(slowest, seconds);
    sum += seconds;
  }
  const double many = static_cast<double>(paces.size()), mean = sum / many;
  for (std::size_t d = 0; d < paces.size(); ++d) {
    const double off = paces[d].seconds(batches[d]) - mean;
    squares += off * off;
  }
  return (1 + 50 * quality.at(all, mbit_s)) * slowest / all + 5 * std::sqrt(squares / many) / mean;
}

CAUSEWAY_DECL std::vector<std::uint32_t> choose_batches(const batch_quality& quality, std::span<const device_pace> paces,
                                                        std::span<const std::uint32_t> most, double mbit_s) {
  CAUSEWAY_EXPECT(!paces.empty() && paces.size() == most.size());
  return detail::batch_search{quality, paces, most, mbit_s}.run();
}

CAUSEWAY_DECL double choose_share(const batch_rate_task& task, std::span<const device_pace> paces,
                                  std::span<const std::uint32_t> batches, double mbit_s) {
  const double room = mbit_s * 1e6 / 8 * pass_seconds(paces, batches);
  double low = 0.001, high = 1;
  if (sent_bytes(task, high) <= room) low = high;
  for (int step = 0; step < 20 && low < high; ++step) {
    const double middle = (low + high) / 2;
    (sent_bytes(task, middle) <= room ? low : high) = middle;
  }
  return low / std::max(1.0, task.peers - 1.0);
}

CAUSEWAY_DECL double next_bandwidth(double before, double measured, double waited, double computed) {
  const double mean = 0.9 * before + 0.1 * measured, part = waited / (waited + computed);
  return part < 0.05 ? 1.1 * mean : mean * std::max(0.75, 1 - part);
}

CAUSEWAY_DECL batch_rate_controller::batch_rate_controller(batch_rate_task task, std::vector<std::uint32_t> most,
                                                           batch_rate start)
    : task_{std::move(task)}, most_{std::move(most)}, now_{std::move(start)}, paces_(most_.size()), seen_(most_.size()) {
  CAUSEWAY_EXPECT(!most_.empty() && now_.batches.size() == most_.size());
}

CAUSEWAY_DECL std::optional<batch_rate> batch_rate_controller::seen(const batch_rate_report& report) {
  constexpr std::uint32_t unused = 4, reliable = 4;              // reports of a device
  constexpr std::uint32_t pause = 3 + 4, pause_running = 3 + 5;  // until what was decided shows
  CAUSEWAY_EXPECT(report.batches.size() == most_.size() && report.backward.size() == most_.size());
  if (reports_ >= unused) learn(report);
  ++reports_;
  ++since_;
  if (reports_ < unused + reliable || since_ < (running_ ? pause_running : pause)) return std::nullopt;
  since_ = 0;
  if (!running_ && now_.batches == most_) running_ = true;
  if (running_) return now_ = follow(report);
  for (std::size_t d = 0; d < most_.size(); ++d) {
    const double grown = std::nearbyint(1.5 * now_.batches[d]);
    now_.batches[d] = std::min(most_[d], static_cast<std::uint32_t>(grown));
  }
  return now_;
}

CAUSEWAY_DECL void batch_rate_controller::learn(const batch_rate_report& report) {
  const double kept = running_ ? 0.999 : 0.9;
  for (std::size_t d = 0; d < most_.size(); ++d) {
    const double pace = report.batches[d] / report.backward[d];
    const auto [known, fresh] = seen_[d].try_emplace(report.batches[d], pace);
    if (!fresh) known->second = kept * known->second + (1 - kept) * pace;
    std::vector<double> batches, paces;
    for (const auto& [batch, per_second] : seen_[d]) {
      batches.push_back(batch);
      paces.push_back(per_second);
    }
    paces_[d] = fit_pace(batches, paces);
  }
}

CAUSEWAY_DECL batch_rate batch_rate_controller::follow(const batch_rate_report& report) {
  constexpr std::uint32_t keep_batches = 100;
  double waited = std::numeric_limits<double>::infinity(), computed = 0;
  for (std::size_t d = 0; d < most_.size(); ++d) {
    waited = std::min(waited, report.waited[d]);
    computed += 1.5 * report.backward[d] / static_cast<double>(most_.size());
  }
  mbit_s_ = followed_ == 0 ? report.mbit_s : next_bandwidth(mbit_s_, report.mbit_s, waited, computed);
  batch_rate next = now_;
  if (followed_++ % keep_batches == 0) {
    next.batches = choose_batches(task_.quality, paces_, most_, like_measured(task_, paces_, now_.batches, mbit_s_));
  }
  next.share = choose_share(task_, paces_, next.batches, mbit_s_);
  return next;
}

}}}  // namespace causeway::CAUSEWAY_ABI::plan

#endif  // CAUSEWAY_PLAN_IMPL_BATCH_RATE_IPP
