// SPDX-License-Identifier: Apache-2.0
#include <causeway/cuda/muon.hpp>

#include <causeway/optim/muon.hpp>

#include "cuda/host_queue.hpp"
#include "cuda/store_case.hpp"
#include "support/catch.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

namespace {

using namespace causeway;
using causeway_test::set_gradients, causeway_test::store_of;

/// |a - b| over the step that b has made from `start`.
double distance(parameter_store& a, parameter_store& b, parameter_store& start, std::size_t segment) {
  double off = 0, moved = 0;
  for (std::int64_t i = 0; i < a.segments()[segment].size(); ++i) {
    const double x = static_cast<double>(a.value(segment)[i]), y = static_cast<double>(b.value(segment)[i]);
    const double from = static_cast<double>(start.value(segment)[i]);
    off += (x - y) * (x - y), moved += (y - from) * (y - from);
  }
  return std::sqrt(off / moved);
}

}  // namespace

TEST_CASE("cuda Muon: optim::muon's steps, in f32 and with products in bf16", "[cuda][fast]") {
  for (const bool half : {false, true}) {
    const auto report = std::make_shared<causeway_test::queue_report>();
    {
      const auto engine = causeway_test::host_engine(report);
      auto there = store_of(cuda::memory_of(*engine)), here = store_of(), start = store_of();
      const optim::muon_options options{.weight_decay = 0.1F};
      cuda::muon on_device{engine, options, half};
      optim::muon<> on_host{options};
      on_device.reset(there.length());
      on_host.reset(here.length());
      thread_pool pool{1};
      for (std::uint64_t step = 0; step < 4; ++step) {
        set_gradients(there, step);
        set_gradients(here, step);
        on_device.step(pool, there.view(), {.learning_rate = 0.02F, .gradient_scale = 0.5F});
        on_host.step(pool, here.view(), {.learning_rate = 0.02F, .gradient_scale = 0.5F});
      }
      for (const std::size_t matrix : {1, 3}) CHECK(distance(there, here, start, matrix) < (half ? 3e-2 : 1e-4));
      for (const std::size_t other : {0, 2}) CHECK(distance(there, here, start, other) == 0.0);
    }
    CHECK(report->reserved == 0);
  }
}
