// SPDX-License-Identifier: Apache-2.0
#include <causeway/cuda/rows.hpp>

#include "cuda/host_engine.hpp"
#include "cuda/row_case.hpp"
#include "support/catch.hpp"

#include <memory>

using namespace causeway;
using causeway_test::engine_on_host;

TEST_CASE("cuda rows: arithmetic of policies has the host's bits in memory of the engine", "[cuda][fast]") {
  causeway_test::compare_row_arithmetic(engine_on_host(), 1'003);
}

TEST_CASE("cuda rows: rows of which one is the host's take the host's way", "[cuda][fast]") {
  const auto report = std::make_shared<causeway_test::queue_report>();
  const auto engine = engine_on_host(report);
  thread_pool pool{1};
  const cuda::rows rows{*engine, pool};
  const auto there = causeway_test::there_and_here{engine, 100, 1}.there;
  std::vector<float> here(there.size(), 1.0F);
  report->fail_at = 0;
  REQUIRE(rows.copy(here, there));
  CHECK(std::equal(here.begin(), here.end(), there.begin()));
  REQUIRE(rows.subtract(here, here, there));
  CHECK(here == std::vector<float>(100));
  CHECK(report->fail_at == 0);
}

TEST_CASE("cuda rows: an error of the device is told, once", "[cuda][fast]") {
  const auto report = std::make_shared<causeway_test::queue_report>();
  const auto engine = engine_on_host(report);
  thread_pool pool{1};
  const cuda::rows rows{*engine, pool};
  auto y = causeway_test::there_and_here{engine, 100, 1}.there;
  const auto before = y;
  report->fail_at = 0;
  const auto lost = rows.scale(y, 2.0F);
  REQUIRE_FALSE(lost);
  CHECK(lost.error().code == errc::device_lost);
  CHECK(y == before);
  CHECK(rows.zero(y));
  CHECK(y[0] == 0.0F);
}
