// SPDX-License-Identifier: Apache-2.0
#include <causeway/core/metrics.hpp>

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "support/catch.hpp"

using namespace causeway;

TEST_CASE("log sink: silent by default, and calls what it was given", "[core][fast]") {
  log_sink{}(severity::error, "nobody listens");

  std::vector<std::pair<severity, std::string>> heard;
  const log_sink sink{[&](severity level, std::string_view text) { heard.emplace_back(level, text); }};
  const log_sink copy = sink;
  sink(severity::info, "one");
  copy(severity::warning, "two");
  REQUIRE(heard.size() == 2);
  CHECK(heard[0] == std::pair{severity::info, std::string{"one"}});
  CHECK(heard[1] == std::pair{severity::warning, std::string{"two"}});
}

TEST_CASE("traffic: starts at zero", "[core][fast]") {
  const traffic t;
  CHECK(t.bytes_sent + t.bytes_received + t.frames_sent + t.frames_received + t.frames_rejected == 0);
}

TEST_CASE("log sink: a copy keeps the function, and levels are ordered by weight", "[core][fast]") {
  auto heard = std::make_shared<int>(0);
  auto sink = std::make_unique<log_sink>([heard](severity, std::string_view) { ++*heard; });
  const log_sink copy = *sink;
  sink.reset();
  copy(severity::debug, "still heard");
  CHECK(*heard == 1);
  CHECK(severity::debug < severity::info);
  CHECK(severity::info < severity::warning);
  CHECK(severity::warning < severity::waiting);
  CHECK(severity::waiting < severity::error);
}
