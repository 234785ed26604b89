// SPDX-License-Identifier: Apache-2.0
#include <causeway/core/concepts.hpp>

#include <concepts>
#include <memory>
#include <string>
#include <string_view>

#include "support/catch.hpp"

using namespace causeway;

namespace {

struct plain {
  int value;
};
struct fixed_place {
  fixed_place() = default;
  fixed_place(const fixed_place&) = delete;
  fixed_place& operator=(const fixed_place&) = delete;
};
struct only_made {
  explicit only_made(int);
  only_made(only_made&&) noexcept = default;
  only_made& operator=(only_made&&) = delete;
};
struct never_empty {
  explicit never_empty(int);
};
struct from_int {
  explicit from_int(int);
};

/// As the standard library's concepts say it.
template <class T>
constexpr bool as_std = Movable<T> == std::movable<T>&& Copyable<T> == std::copyable<T>&& DefaultInitializable<T> ==
                        std::default_initializable<T>;
template <class From, class To>
constexpr bool converts_as_std = ConvertibleTo<From, To> == std::convertible_to<From, To>;

}  // namespace

TEST_CASE("concepts: they say what the standard library's do", "[core][fast]") {
  STATIC_REQUIRE(as_std<int>);
  STATIC_REQUIRE(as_std<plain>);
  STATIC_REQUIRE(as_std<std::string>);
  STATIC_REQUIRE(as_std<std::unique_ptr<int>>);
  STATIC_REQUIRE(as_std<fixed_place>);
  STATIC_REQUIRE(as_std<only_made>);
  STATIC_REQUIRE(as_std<never_empty>);
  STATIC_REQUIRE(Movable<const int> == std::movable<const int>);
  STATIC_REQUIRE(Copyable<std::string>);
  STATIC_REQUIRE_FALSE(Copyable<std::unique_ptr<int>>);
  STATIC_REQUIRE_FALSE(Movable<only_made>);
  STATIC_REQUIRE(converts_as_std<int, long>);
  STATIC_REQUIRE(converts_as_std<const char*, std::string_view>);
  STATIC_REQUIRE(converts_as_std<const std::string&, std::string_view>);
  STATIC_REQUIRE(converts_as_std<std::string_view, std::string>);
  STATIC_REQUIRE(converts_as_std<int, from_int>);
  STATIC_REQUIRE(converts_as_std<std::unique_ptr<int>, std::shared_ptr<int>>);
  STATIC_REQUIRE(converts_as_std<std::unique_ptr<int>&, std::shared_ptr<int>>);
  STATIC_REQUIRE(converts_as_std<plain, fixed_place>);
}
