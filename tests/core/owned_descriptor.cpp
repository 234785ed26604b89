// SPDX-License-Identifier: Apache-2.0
#include <causeway/core/owned_descriptor.hpp>

#include "support/catch.hpp"

#include <fcntl.h>

using causeway::owned_descriptor;

namespace {

bool is_open(int fd) { return ::fcntl(fd, F_GETFD) != -1; }

owned_descriptor opened() { return owned_descriptor{::open("/dev/null", O_RDONLY | O_CLOEXEC)}; }

}  // namespace

TEST_CASE("owned descriptor: it is closed once, by whoever has it last", "[core][fast]") {
  int first = -1;
  int second = -1;
  {
    owned_descriptor a = opened();
    first = a.get();
    owned_descriptor b{std::move(a)};
    CHECK(a.get() == -1);
    CHECK(is_open(first));
    owned_descriptor c = opened();
    second = c.get();
    c = std::move(b);
    CHECK(c.get() == first);
    CHECK_FALSE(is_open(second));
    CHECK(is_open(first));
  }
  CHECK_FALSE(is_open(first));
}

TEST_CASE("owned descriptor: what is released stays open; closing says what the system says", "[core][fast]") {
  const int fd = opened().release();
  CHECK(is_open(fd));
  owned_descriptor owner{fd};
  CHECK(owner.close());
  CHECK_FALSE(is_open(fd));
  CHECK(owner.close());  // there is none any more
  CHECK_FALSE(owned_descriptor{fd}.close());
  CHECK(owned_descriptor{}.get() == -1);
}
