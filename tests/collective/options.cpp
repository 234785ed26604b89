// SPDX-License-Identifier: Apache-2.0
#include <causeway/collective/options.hpp>

#include "support/catch.hpp"

#include <cstdint>

using namespace causeway::collective;

TEST_CASE("workspace: grows to the largest need, aligned, and keeps it", "[collective][fast]") {
  collective_workspace workspace;
  std::byte* const first = workspace.reserve(1000);
  CHECK(reinterpret_cast<std::uintptr_t>(first) % 64 == 0);
  CHECK(workspace.reserve(10) == first);
  CHECK(workspace.capacity() == 1000);
  (void)workspace.reserve(5000);
  CHECK(workspace.capacity() == 5000);
}

TEST_CASE("options: several streams a link get enough chunks, one keeps what was asked for", "[collective][fast]") {
  const collective_options asked{.chunk_bytes = 1000, .window = 3};
  CHECK(tuned_for_streams(asked, 1).chunk_bytes == 1000);
  CHECK(tuned_for_streams(asked, 1).window == 3);
  CHECK(tuned_for_streams(asked, 16).window >= 16);
  CHECK(tuned_for_streams(asked, 16).one_shot_bytes == asked.one_shot_bytes);
}
