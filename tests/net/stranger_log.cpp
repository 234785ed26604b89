// SPDX-License-Identifier: Apache-2.0
#include <causeway/net/half_open.hpp>

#include "support/catch.hpp"

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

using namespace causeway;
using causeway::net::detail::stranger_log;

TEST_CASE("stranger_log: 100 000 strangers in 45 seconds are told in a few lines, and none is forgotten", "[net][fast]") {
  std::vector<std::string> lines;
  stranger_log log{log_sink{[&](severity, std::string_view line) { lines.emplace_back(line); }}};
  time_point now{std::chrono::hours{1}};
  for (int n = 0; n < 100'000; ++n, now = now + std::chrono::microseconds{450}) log.say(now, "refused 10.0.0.9:5");
  log.flush(now + std::chrono::seconds{10});
  CHECK(lines.size() == 30);
  int told = 0;
  for (const std::string& line : lines) {
    const bool sum = line.rfind("turned away ", 0) == 0;
    told += sum ? std::stoi(line.substr(12)) : 1;
    CHECK(line.find("refused 10.0.0.9:5") != std::string::npos);
  }
  CHECK(told == 100'000);
}

TEST_CASE("stranger_log: seldom ones are told in full", "[net][fast]") {
  std::vector<std::string> lines;
  stranger_log log{log_sink{[&](severity, std::string_view line) { lines.emplace_back(line); }}};
  time_point now{std::chrono::hours{1}};
  for (int n = 0; n < 20; ++n, now = now + std::chrono::seconds{3}) log.say(now, std::to_string(n));
  log.flush(now);
  CHECK(lines.size() == 20);
}
