// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TESTS_SUPPORT_TRACED_PIPELINES_HPP
#define CAUSEWAY_TESTS_SUPPORT_TRACED_PIPELINES_HPP

// What tests need of a trace that tests/golden/traces/make_traces_pipelines.py wrote: the model as it begins, parameters
// after each step, and orders of work.

#include <causeway/plan/schedule.hpp>
#include <causeway/tensor/parameters.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "support/linear_stages.hpp"
#include "support/pipelines.hpp"
#include "support/traced_runs.hpp"

namespace support {

inline std::shared_ptr<const linear_stages::numbers> numbers_of(const trace& t) {
  linear_stages::numbers n{static_cast<std::int64_t>(t.numbers("width")[0]), t.numbers("start"), t.numbers("table")};
  if (t.has("head")) n.head = t.numbers("head");
  return std::make_shared<const linear_stages::numbers>(std::move(n));
}

/// Which batch is a step's: samples may come again.
inline std::uint64_t batch_of(const trace& t, std::uint64_t step) {
  return t.has("batches") ? static_cast<std::uint64_t>(t.numbers("batches")[step]) : step;
}

/// The largest error of a tensor, relative to its own largest value.
inline double relative_error(const std::vector<float>& want, const float* have) {
  double error = 0, scale = 0;
  for (std::size_t i = 0; i < want.size(); ++i) {
    error = std::max(error, std::abs(double(have[i]) - double(want[i])));
    scale = std::max(scale, std::abs(double(want[i])));
  }
  return error / scale;
}

/// Of all blocks that somebody holds, after so many steps.
inline double distance(const trace& t, causeway::parameter_store& store, std::uint64_t step) {
  double worst = 0;
  for (std::size_t i = 0; i < store.segments().size(); ++i) {
    const auto& want = t.numbers(store.segments()[i].name + " " + std::to_string(step));
    worst = std::max(worst, relative_error(want, store.value(i)));
  }
  return worst;
}

/// Of each rank: kind, micro-batch, kind, micro-batch, ...
using flat_orders = std::vector<std::vector<float>>;

inline flat_orders orders(const trace& t, const std::string& name = "order") {
  flat_orders all;
  while (t.has(name + " " + std::to_string(all.size()))) all.push_back(t.numbers(name + " " + std::to_string(all.size())));
  return all;
}

inline flat_orders orders(const causeway::plan::schedule& s) {
  flat_orders all;
  for (const auto& order : s.orders) {
    all.emplace_back();
    for (const auto& op : order) {
      all.back().push_back(static_cast<float>(op.kind));
      all.back().push_back(static_cast<float>(op.micro_batch));
    }
  }
  return all;
}

}  // namespace support

#endif  // CAUSEWAY_TESTS_SUPPORT_TRACED_PIPELINES_HPP
