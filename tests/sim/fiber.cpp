// SPDX-License-Identifier: Apache-2.0
#include <causeway/sim/fiber.hpp>

#include <chrono>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "support/catch.hpp"

using namespace causeway::sim;

TEST_CASE("fiber: goes on where it left off", "[sim][fast]") {
  stack_pool stacks;
  std::vector<int> seen;
  fiber* self = nullptr;
  fiber f{stacks, [&] {
            for (int i = 0; i < 3; ++i) {
              seen.push_back(i);
              self->suspend();
            }
          }};
  self = &f;
  for (int i = 0; i < 3; ++i) {
    f.resume();
    CHECK(seen.size() == static_cast<std::size_t>(i + 1));
    CHECK_FALSE(f.finished());
  }
  f.resume();
  CHECK(f.finished());
  CHECK(seen == std::vector<int>{0, 1, 2});
}

TEST_CASE("fiber: what the body throws can be rethrown outside", "[sim][fast]") {
  stack_pool stacks;
  fiber f{stacks, [] { throw std::runtime_error{"out of luck"}; }};
  f.resume();
  REQUIRE(f.finished());
  CHECK_THROWS_WITH(std::rethrow_exception(f.failure()), "out of luck");
}

TEST_CASE("fiber: may be left inside a catch block, and during unwinding", "[sim][fast]") {
  stack_pool stacks;
  std::string log;
  fiber* first = nullptr;
  fiber* second = nullptr;
  const auto body = [&log](fiber*& self, const char* name) {
    struct leaves {  // its destructor suspends while an exception is on its way
      fiber*& self;
      ~leaves() { self->suspend(); }
    };
    try {
      const leaves guard{self};
      throw std::runtime_error{name};
    } catch (const std::runtime_error& e) {
      self->suspend();
      log += e.what();
      try {
        throw;  // the one being handled: each fiber its own
      } catch (const std::runtime_error& again) {
        log += again.what();
      }
    }
  };
  fiber a{stacks, [&] { body(first, "a"); }};
  fiber b{stacks, [&] { body(second, "b"); }};
  first = &a;
  second = &b;
  for (int i = 0; i < 3; ++i) {
    a.resume();
    CHECK(std::uncaught_exceptions() == 0);
    b.resume();
  }
  CHECK(a.finished());
  CHECK(b.finished());
  CHECK(log == "aabb");
}

TEST_CASE("fiber: fibers start others from inside", "[sim][fast]") {
  stack_pool stacks;
  int depth = 0;
  const std::function<void(int)> nest = [&](int left) {
    ++depth;
    if (left == 0) return;
    fiber inner{stacks, [&] { nest(left - 1); }};
    inner.resume();
  };
  nest(20);
  CHECK(depth == 21);
  CHECK(stacks.mapped() == 20);
  CHECK(stacks.free() == 20);
}

TEST_CASE("fiber: ten thousand fibers one after the other use one stack", "[sim][fast]") {
  stack_pool stacks{64 << 10};
  int runs = 0;
  for (int i = 0; i < 10000; ++i) {
    fiber f{stacks, [&] { ++runs; }};
    if (i % 2 == 0) f.resume();  // others are never started
  }
  CHECK(runs == 5000);
  CHECK(stacks.mapped() == 1);
}

TEST_CASE("fiber: what the body captured is freed when it ends", "[sim][fast]") {
  stack_pool stacks;
  const auto token = std::make_shared<int>(1);
  fiber f{stacks, [token] {}};
  CHECK(token.use_count() == 2);
  f.resume();
  CHECK(token.use_count() == 1);
}
