// SPDX-License-Identifier: Apache-2.0
#include <causeway/cuda/bodies/group.hpp>

#include "cuda/thread_group.hpp"
#include "support/catch.hpp"

#include <cstdint>
#include <vector>

using causeway_test::with_group;

TEST_CASE("cuda group: threads share elements out, each to one of them, the same ones each time", "[cuda][fast]") {
  for (const int threads : {1, 3, 8}) {
    for (const std::int64_t count : {0, 1, 4, 7, 45}) {
      std::vector<int> owner(static_cast<std::size_t>(count), -1), wrong(static_cast<std::size_t>(threads));
      with_group(threads, [&](auto& g) {
        causeway::cuda::detail::for_packs<4>(g, count, [&](std::int64_t i, auto width) {
          if (width.value == 4 && i % 4 != 0) ++wrong[static_cast<std::size_t>(g.rank())];
          for (int k = 0; k < width.value; ++k) owner[static_cast<std::size_t>(i + k)] = g.rank();
        });
        causeway::cuda::detail::for_packs<4>(g, count, [&](std::int64_t i, auto width) {
          for (int k = 0; k < width.value; ++k) {
            if (owner[static_cast<std::size_t>(i + k)] != g.rank()) ++wrong[static_cast<std::size_t>(g.rank())];
          }
        });
      });
      CHECK(wrong == std::vector<int>(static_cast<std::size_t>(threads)));
      for (const int who : owner) CHECK((who >= 0 && who < threads));
    }
  }
}

TEST_CASE("cuda group: every thread gets the sum and the largest of all, and the sum of those before it", "[cuda][fast]") {
  for (const int threads : {1, 2, 7}) {
    std::vector<double> sums(static_cast<std::size_t>(threads)), most(sums);
    std::vector<int> before(sums.size());
    with_group(threads, [&](auto& g) {
      const auto own = static_cast<std::size_t>(g.rank());
      sums[own] = g.sum(static_cast<double>(g.rank() + 1));
      before[own] = g.before(g.rank() + 1);
      most[own] = static_cast<double>(g.largest(g.rank() * 2));
    });
    for (int i = 0; i < threads; ++i) CHECK(before[static_cast<std::size_t>(i)] == i * (i + 1) / 2);
    CHECK(sums == std::vector<double>(sums.size(), threads * (threads + 1) / 2));
    CHECK(most == std::vector<double>(sums.size(), 2 * (threads - 1)));
  }
}
