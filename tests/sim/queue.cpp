// SPDX-License-Identifier: Apache-2.0
#include <causeway/sim/connection.hpp>

#include <causeway/core/rng.hpp>

#include <deque>
#include <memory>

#include "support/catch.hpp"

using causeway::sim::detail::queue;

TEST_CASE("queue: does what a deque does", "[sim][fast]") {
  queue<std::unique_ptr<int>> q;
  std::deque<int> reference;
  causeway::rng random{3};
  for (int i = 0; i < 5000; ++i) {
    if (random.below(5) < 3) {
      q.push(std::make_unique<int>(i));
      reference.push_back(i);
    } else if (!q.empty()) {
      REQUIRE(*q.front() == reference.front());
      REQUIRE(*q.pop() == reference.front());
      reference.pop_front();
    }
    if (random.below(100) == 0) {
      q.erase_if([](const auto& p) { return *p % 3 == 0; });
      std::erase_if(reference, [](int v) { return v % 3 == 0; });
    }
    REQUIRE(q.size() == reference.size());
  }
}

TEST_CASE("queue: what was popped or cleared is freed", "[sim][fast]") {
  const auto token = std::make_shared<int>(0);
  queue<std::shared_ptr<int>> q;
  for (int i = 0; i < 10; ++i) q.push(token);
  q.pop();
  CHECK(token.use_count() == 10);
  q.clear();
  CHECK(token.use_count() == 1);
  CHECK(q.empty());
}
