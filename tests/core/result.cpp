// SPDX-License-Identifier: Apache-2.0
#include <causeway/core/result.hpp>

#include <csignal>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "support/death.hpp"

using namespace causeway;

namespace {

error broken() { return fail(errc::io_failed, "disk", "it broke"); }

result<int> half(int n) {
  if (n % 2 != 0) return fail(errc::invalid_argument, "half", "odd");
  return n / 2;
}

result<int> quarter(int n) {
  CAUSEWAY_ASSIGN(const int once, half(n));
  CAUSEWAY_ASSIGN(const int twice, half(once));
  return twice;
}

result<void> even(int n) { return half(n) ? result<void>{} : result<void>{half(n).error()}; }

result<std::string> describe(int n) {
  CAUSEWAY_TRY(even(n));
  return "even: " + std::to_string(n);
}

}  // namespace

TEST_CASE("result: holds a value or an error", "[core][fast]") {
  result<int> good{7};
  CHECK(good);
  CHECK(good.value() == 7);
  CHECK(*good == 7);
  result<int> bad{broken()};
  CHECK_FALSE(bad);
  CHECK(bad.error().code == errc::io_failed);
  CHECK(bad.value_or(3) == 3);
  CHECK(good.value_or(3) == 7);
}

TEST_CASE("result: holds values that can only be moved, and gives them away", "[core][fast]") {
  result<std::unique_ptr<int>> r{std::make_unique<int>(5)};
  const std::unique_ptr<int> taken = std::move(r).value();
  CHECK(*taken == 5);
  static_assert(!std::is_copy_constructible_v<result<std::unique_ptr<int>>>);
}

TEST_CASE("result: is copied, moved and assigned from either side to either side", "[core][fast]") {
  const auto two_words = [] { return result<std::string>{std::string{"a value too long to lie within a string"}}; };
  const std::string was = two_words().value();
  auto copy = two_words();
  auto other = copy;
  CHECK((copy.value() == was && other.value() == was));
  other = broken();
  CHECK((!other && other.error().code == errc::io_failed));
  copy = other;  // a value becomes an error,
  CHECK((!copy && copy.error().message == "it broke"));
  copy = two_words();  // and an error a value
  CHECK(copy.value() == was);
  const auto& same = copy;
  copy = same;
  CHECK(copy.value() == was);
  const auto moved = std::move(copy);
  CHECK(moved.value() == was);
  result<std::unique_ptr<int>> box{broken()};
  box = result<std::unique_ptr<int>>{std::make_unique<int>(3)};
  CHECK(**box == 3);
  static_assert(std::is_nothrow_move_constructible_v<result<std::string>>);
}

TEST_CASE("result: the value can be changed in place", "[core][fast]") {
  result<std::vector<int>> r{std::vector<int>{1, 2, 3}};
  CHECK(r->size() == 3);
  r->push_back(4);
  CHECK((*r).back() == 4);
}

TEST_CASE("result: and_then and transform pass errors on untouched", "[core][fast]") {
  CHECK(half(8).and_then(half).value() == 2);
  CHECK(half(6).and_then(half).error().message == "odd");
  CHECK(half(7).and_then(half).error().code == errc::invalid_argument);
  CHECK(half(8).transform([](int n) { return std::to_string(n); }).value() == "4");
  bool called = false;
  const auto failed = half(7).transform([&](int) { return called = true; });
  CHECK_FALSE(failed);
  CHECK_FALSE(called);
}

TEST_CASE("result: the macros return the first error from the enclosing function", "[core][fast]") {
  CHECK(quarter(12).value() == 3);
  CHECK(quarter(6).error().message == "odd");
  CHECK(quarter(5).error().where == "half");
  CHECK(describe(4).value() == "even: 4");
  CHECK(describe(3).error().code == errc::invalid_argument);
}

TEST_CASE("result of void: success unless an error was given", "[core][fast]") {
  CHECK(result<void>{});
  const result<void> failed{broken()};
  CHECK_FALSE(failed);
  CHECK(failed.error().text() == "disk: it broke [io_failed]");
}

namespace {

result<std::unique_ptr<int>> make_box(int n) {
  if (n < 0) return fail(errc::invalid_argument, "make_box", "negative");
  return std::make_unique<int>(n);
}

result<std::unique_ptr<int>> next_box(int n) {
  CAUSEWAY_ASSIGN(std::unique_ptr<int> box, make_box(n));
  ++*box;
  return box;
}

}  // namespace

TEST_CASE("result: what can only be moved passes through the macros and the chain", "[core][fast]") {
  CHECK(**next_box(4) == 5);
  CHECK(next_box(-1).error().where == "make_box");
  CHECK(make_box(3).and_then([](std::unique_ptr<int> box) { return half(*box + 1); }).value() == 2);
  CHECK(*make_box(3).transform([](std::unique_ptr<int> box) { return *box * 2; }) == 6);
  CHECK(make_box(-3).and_then([](std::unique_ptr<int>) { return half(0); }).error().text() ==
        "make_box: negative [invalid_argument]");
}

TEST_CASE("result: a value that is false or reads like an error is a value all the same", "[core][fast]") {
  const result<std::string> text{std::string{"[corrupt]"}};
  CHECK(text.value() == "[corrupt]");
  const result<bool> no{false};  // has a value, which is false
  CHECK(no.has_value());
  CHECK_FALSE(*no);
}

TEST_CASE("result: the macros evaluate their expression once", "[core][fast]") {
  int calls = 0;
  const auto count = [&]() -> result<int> { return ++calls; };
  const auto both = [&]() -> result<int> {
    CAUSEWAY_TRY(count());
    CAUSEWAY_ASSIGN(const int second, count());
    return second;
  };
  CHECK(both().value() == 2);
  CHECK(calls == 2);
}

#if defined(CAUSEWAY_CHECKED) || !defined(NDEBUG)
TEST_CASE("result: reading the wrong side aborts in a checked build", "[core][fast]") {
  using causeway_tests::run_in_child;
  const result<int> good{1};
  const result<int> bad{broken()};
  const result<void> done;
  const result<void> failed{broken()};
  CHECK(run_in_child([&] { static_cast<void>(bad.value()); }).signal == SIGABRT);
  CHECK(run_in_child([&] { static_cast<void>(good.error()); }).signal == SIGABRT);
  CHECK(run_in_child([&] { failed.value(); }).signal == SIGABRT);
  CHECK(run_in_child([&] { static_cast<void>(done.error()); }).signal == SIGABRT);
  CHECK(run_in_child([&] { static_cast<void>(good.value() + static_cast<int>(bad.error().code)); }).signal == 0);
}
#endif
