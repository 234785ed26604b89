// SPDX-License-Identifier: Apache-2.0
#include <causeway/cuda/ops/compute.hpp>

#include "cuda/host_queue.hpp"
#include "support/catch.hpp"

#include <cmath>
#include <memory>
#include <vector>

namespace {

using namespace causeway;
using causeway_test::queue_report;

}  // namespace

static_assert(cuda::EngineQueue<causeway_test::host_queue>);

TEST_CASE("cuda engine: behind an error nothing runs until it is told, once", "[cuda][fast]") {
  const auto report = std::make_shared<queue_report>();
  const auto engine = causeway_test::host_engine(report);
  std::vector<float> x(10, 1.0F), y(10, 2.0F);
  report->fail_at = 1;
  engine->add(y.data(), y.data(), x.data(), 10);  // runs
  engine->zero(y.data(), 10);                     // fails
  report->fail_at = -1;
  engine->zero(x.data(), 10);  // is left out
  CHECK(x[0] == 1.0F);
  CHECK(y[0] == 3.0F);
  CHECK(std::isnan(engine->sum_of_squares(x.data(), 10)));
  const auto told = engine->finish();
  REQUIRE_FALSE(told);
  CHECK(told.error().code == errc::device_lost);
  CHECK(engine->finish());
  CHECK(engine->sum_of_squares(x.data(), 10) == 10.0);
}

TEST_CASE("cuda engine: pointers know their type", "[cuda][fast]") {
  float f = 1.0F;
  const bf16 b{2.0F};
  CHECK(cuda::values{&f}.type == dtype::f32);
  CHECK(cuda::const_values{&b}.type == dtype::bf16);
  CHECK(cuda::const_values{&b}.at == &b);
  kernels::gemm_args<bf16, float> args{.m = 3, .n = 4, .k = 5, .a = &b, .c = &f};
  const cuda::product p{args};
  CHECK(p.a.type == dtype::bf16);
  CHECK(p.c.type == dtype::f32);
  CHECK(p.k == 5);
}
