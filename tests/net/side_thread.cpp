// SPDX-License-Identifier: Apache-2.0
#include <causeway/net/side_thread.hpp>

#include "support/catch.hpp"

#include <atomic>
#include <future>
#include <numeric>
#include <thread>
#include <vector>

using causeway::net::side_thread;

TEST_CASE("side thread: what is pushed runs in its order, one at a time, on another thread", "[net][fast]") {
  std::vector<int> seen;
  std::atomic<int> inside{0};
  std::thread::id where;
  side_thread thread;
  for (int i = 0; i < 200; ++i) {
    thread.push([&, i] {
      CHECK(++inside == 1);
      where = std::this_thread::get_id();
      seen.push_back(i);
      --inside;
    });
  }
  thread.wait_idle();
  std::vector<int> all(200);
  std::iota(all.begin(), all.end(), 0);
  CHECK(seen == all);
  CHECK(where != std::this_thread::get_id());
}

TEST_CASE("side thread: push does not wait for work that blocks", "[net][fast]") {
  std::promise<void> go;
  bool last = false;
  side_thread thread;
  thread.push([gate = go.get_future().share()] { gate.wait(); });
  thread.push([&] { last = true; });
  go.set_value();  // would never be reached
  thread.wait_idle();
  CHECK(last);
}

TEST_CASE("side thread: its end lets all that was pushed be done", "[net][fast]") {
  int done = 0;
  {
    side_thread thread;
    for (int i = 0; i < 50; ++i) thread.push([&] { ++done; });
  }
  CHECK(done == 50);
  side_thread idle;
  idle.wait_idle();
}
