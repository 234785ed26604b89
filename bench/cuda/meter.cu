// SPDX-License-Identifier: Apache-2.0
#include "cuda/meter.cuh"

namespace bench {

double median(std::vector<double> all) {
  std::nth_element(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(all.size() / 2), all.end());
  return all[all.size() / 2];
}

result<meter> meter::create(bool quick) {
  CAUSEWAY_TRY(cuda::device_count());
  CAUSEWAY_ASSIGN(auto s, cuda::stream::create());
  CAUSEWAY_ASSIGN(auto begin, cuda::event::create(cuda::event_timing::on));
  CAUSEWAY_ASSIGN(auto end, cuda::event::create(cuda::event_timing::on));
  return result<meter>{meter{std::move(s), std::move(begin), std::move(end), quick}};
}

result<double> meter::seconds(const launch& start, int repeats) {
  CAUSEWAY_TRY(begin_.record(s_));
  for (int i = 0; i < repeats; ++i) CAUSEWAY_TRY(start());
  CAUSEWAY_TRY(end_.record(s_));
  CAUSEWAY_TRY(end_.synchronize());
  CAUSEWAY_ASSIGN(const float milliseconds, end_.milliseconds_since(begin_));
  return static_cast<double>(milliseconds) * 1e-3 / repeats;
}

/// As many as take about 4 ms; the first launch, which loads the kernel, does not count.
result<int> meter::repeats_of(const launch& start) {
  CAUSEWAY_TRY(seconds(start, 1));
  if (quick_) return 1;
  CAUSEWAY_ASSIGN(const double once, seconds(start, 2));
  return static_cast<int>(std::clamp(4e-3 / std::max(once, 1e-7), 1.0, 400.0));
}

void meter::set_reference(bound by, launch start, double amount) {
  references_[static_cast<int>(by)] = {std::move(start), amount};
}

result<double> meter::rate_of(const launch& start, double amount) {
  CAUSEWAY_ASSIGN(const int repeats, repeats_of(start));
  std::vector<double> times;
  for (int round = 0; round < (quick_ ? 1 : 11); ++round) {
    CAUSEWAY_ASSIGN(const double time, seconds(start, repeats));
    times.push_back(time);
  }
  return amount / median(times);
}

result<void> meter::measure(std::string name, std::string size, bound by, double amount, const launch& start) {
  const reference& to = references_[static_cast<int>(by)];
  CAUSEWAY_ASSIGN(const int repeats, repeats_of(start));
  CAUSEWAY_ASSIGN(const int reference_repeats, repeats_of(to.start));
  std::vector<double> times, shares;
  for (int round = 0; round < (quick_ ? 1 : 11); ++round) {
    CAUSEWAY_ASSIGN(const double bounding, seconds(to.start, reference_repeats));
    CAUSEWAY_ASSIGN(const double time, seconds(start, repeats));
    times.push_back(time);
    shares.push_back(amount / time / (to.amount / bounding));
  }
  const double time = median(times);
  figures_.push_back({std::move(name), std::move(size), by, time, amount / time, median(shares)});
  return {};
}

}  // namespace bench
