// SPDX-License-Identifier: Apache-2.0
#include <causeway/comm/memory_as_it_was.hpp>

#include "support/catch.hpp"

#include <algorithm>
#include <span>
#include <vector>

using namespace causeway;

TEST_CASE("memory as it was: what was written meanwhile, in several places, is taken back", "[comm][fast]") {
  std::vector<float> first{1, 2, 3};
  std::vector<double> second{4, 5};
  const comm::detail::memory_as_it_was before{
      {std::as_writable_bytes(std::span{first}), {}, std::as_writable_bytes(std::span{second})}};
  std::fill(first.begin(), first.end(), 0.0F);
  second[1] = 7;
  before.put_back();
  CHECK(first == std::vector<float>{1, 2, 3});
  CHECK(second == std::vector<double>{4, 5});
}
