// SPDX-License-Identifier: Apache-2.0
#include <causeway/net/descriptors.hpp>

#include "support/catch.hpp"

#include <algorithm>
#include <cstddef>

using namespace causeway::net::detail;

TEST_CASE("descriptors: connections leave a reserve for files", "[net][fast]") {
  CHECK(spare_descriptors(std::size_t{10}, 1024) == 1024 - 64 - 11);
  CHECK(spare_descriptors(std::size_t{958}, 1024) == 1);
  CHECK(spare_descriptors(std::size_t{959}, 1024) == 0);
  CHECK(spare_descriptors(std::size_t{5000}, 1024) == 0);
  CHECK(spare_descriptors(std::size_t{10}, 16) == 1);  // a quarter where the limit is small
  CHECK(spare_descriptors(-1) == 0);
}

TEST_CASE("descriptors: more links fit than with 16 streams each", "[net][fast]") {
  CHECK(affordable_streams(16, 60000) == 16);
  CHECK(affordable_streams(16, 0) == 1);
  CHECK(affordable_streams(0, 60000) == 1);
  const auto links_within = [](std::size_t limit) {
    std::size_t open = 20;
    std::size_t links = 0;
    for (; spare_descriptors(open, limit) > 1; ++links) open += 1 + affordable_streams(16, spare_descriptors(open, limit));
    return links;
  };
  CHECK(links_within(1024) > 150);  // 56 with 17 sockets each
  CHECK(links_within(4096) > 300);  // 237
}

#if defined(__unix__) || defined(__APPLE__)
TEST_CASE("descriptors: the limit is raised as far as it may be, and never lowered", "[net][fast]") {
  rlimit limit{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &limit) == 0);
  const auto most = static_cast<std::size_t>(std::min<rlim_t>(limit.rlim_max, most_descriptors));
  const rlimit low{std::min<rlim_t>(limit.rlim_cur, 256), limit.rlim_max};
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &low) == 0);
  CHECK(descriptor_limit() == low.rlim_cur);
  CHECK(raise_descriptor_limit() == std::max<std::size_t>(most, low.rlim_cur));
  CHECK(raise_descriptor_limit() == std::max<std::size_t>(most, low.rlim_cur));
}
#endif
