// SPDX-License-Identifier: Apache-2.0
#include <causeway/net/shared_rings.hpp>

#include <algorithm>
#include <utility>

#include <fcntl.h>
#include <unistd.h>

#include "support/catch.hpp"

using namespace causeway;
using causeway::owned_descriptor;
using net::detail::shared_pages;

TEST_CASE("shared pages: who maps the descriptor sees the same bytes, at first zero", "[net][fast]") {
  auto made = shared_pages::make(10'000);
  REQUIRE(made);
  CHECK(std::all_of(made->base(), made->base() + 10'000, [](std::byte b) { return b == std::byte{0}; }));
  const auto other = shared_pages::map(owned_descriptor{::dup(made->descriptor().get())}, 10'000);
  REQUIRE(other);
  CHECK(other->base() != made->base());
  made->base()[9'999] = std::byte{7};
  CHECK(other->base()[9'999] == std::byte{7});
  const shared_pages moved{std::move(*made)};  // the mapping goes with it
  other->base()[0] = std::byte{5};
  CHECK(moved.base()[0] == std::byte{5});
}

TEST_CASE("shared pages: their size is sealed, and they outlive their descriptor", "[net][fast]") {
  auto made = shared_pages::make(4096);
  REQUIRE(made);
  CHECK(::ftruncate(made->descriptor().get(), 100) != 0);
  CHECK(::ftruncate(made->descriptor().get(), 8192) != 0);
  made->close_descriptor();
  CHECK(made->descriptor().get() < 0);
  made->base()[4095] = std::byte{1};
  CHECK(made->base()[4095] == std::byte{1});
}

TEST_CASE("shared pages: what is no memory cannot be mapped", "[net][fast]") {
  CHECK(shared_pages::map(owned_descriptor{}, 4096).error().code == errc::out_of_memory);
}
