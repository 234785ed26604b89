// SPDX-License-Identifier: Apache-2.0
#include <causeway/core/thread_pool.hpp>

#include "support/catch.hpp"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

using namespace causeway;

namespace {

/// Each index adds to a number of its own; no atomics, so ThreadSanitizer sees every missing ordering in the pool.
std::int64_t many_runs(thread_pool& pool, int runs) {
  struct alignas(64) counter {
    std::int64_t value = 0;
  };
  std::vector<counter> counters(pool.size());
  std::int64_t total = 0;
  for (int run = 0; run < runs; ++run) {
    pool.run([&](unsigned index) { counters[index].value += run; });
    for (auto& c : counters) total += std::exchange(c.value, 0);
  }
  return total;
}

}  // namespace

TEST_CASE("thread pool: every index is run once, and its writes are seen after run", "[core][fast]") {
  // Up to four threads, and one pool that has more threads than the machine has cores, whose threads never spin.
  const unsigned crowd = std::max(1U, std::thread::hardware_concurrency()) + 3;
  for (const unsigned threads : {1U, 2U, 3U, 4U, crowd}) {
    thread_pool pool{threads};
    REQUIRE(pool.size() == threads);
    constexpr int runs = 2000;
    CHECK(many_runs(pool, runs) == static_cast<std::int64_t>(threads) * runs * (runs - 1) / 2);
  }
}

TEST_CASE("thread pool: calls that run at the same time are told apart, and the caller is thread 0", "[core][fast]") {
  thread_pool pool{3};
  std::vector<std::thread::id> ids(3);
  std::atomic<int> wrong{0};
  for (int round = 0; round < 2000; ++round) {
    pool.for_each(20, [&](unsigned, unsigned thread) {
      if (ids[thread] == std::thread::id{}) ids[thread] = std::this_thread::get_id();
      if (ids[thread] != std::this_thread::get_id()) ++wrong;
    });
  }
  CHECK(wrong == 0);
  CHECK(ids[0] == std::this_thread::get_id());
}

TEST_CASE("thread pool: each part is done once, and its writes are seen by the caller", "[core][fast]") {
  const unsigned crowd = std::max(1U, std::thread::hardware_concurrency()) + 3;
  for (const unsigned threads : {1U, 2U, 3U, crowd}) {
    thread_pool pool{threads};
    for (const unsigned parts : {0U, 1U, 2U, 3U, 5U, 64U, 1000U}) {
      std::vector<int> done(parts, 0);  // plain ints: the pool itself must order the accesses
      for (int round = 0; round < 50; ++round) pool.for_each(parts, [&](unsigned part, unsigned) { ++done[part]; });
      REQUIRE(done == std::vector<int>(parts, 50));
    }
  }
}

TEST_CASE("thread pool: a thread that is busy holds up only the part that it is in", "[core][fast]") {
  thread_pool pool{2};
  std::atomic<unsigned> done{0};
  for (int round = 0; round < 100; ++round) {
    done = 0;
    pool.for_each(8, [&](unsigned part, unsigned) {
      ++done;
      while (part == 0 && done < 8)
        std::this_thread::yield();  // until the other thread has done all of the caller's others
    });
    CHECK(done == 8);
  }
}

TEST_CASE("thread pool: zero threads means the caller alone", "[core][fast]") {
  thread_pool pool{0};
  CHECK(pool.size() == 1);
  CHECK(many_runs(pool, 10) == 45);
}

TEST_CASE("thread pool: pools come and go, used or not", "[core][fast]") {
  std::int64_t total = 0;
  for (unsigned i = 0; i < 100; ++i) {
    thread_pool pool{1 + i % 4};
    if (i % 3 != 0) total += many_runs(pool, 2);
  }
  CHECK(total > 0);
}

TEST_CASE("thread pool: a moved pool keeps its threads", "[core][fast]") {
  thread_pool first{2};
  CHECK(many_runs(first, 3) == 6);
  thread_pool second{std::move(first)};
  CHECK(second.size() == 2);
  CHECK(many_runs(second, 3) == 6);
}

TEST_CASE("thread pool: a range is cut into parts that cover it once, at multiples of the grain", "[core][fast]") {
  for (const unsigned threads : {1U, 2U, 3U, 4U}) {
    thread_pool pool{threads};
    for (const std::int64_t count : {0, 1, 7, 63, 64, 65, 1000}) {
      for (const std::int64_t grain : {1, 4, 64}) {
        std::vector<int> touched(static_cast<std::size_t>(count));
        std::atomic<int> bad{0};
        pool.for_range(count, grain, [&](index_range part) {
          if (part.size() <= 0 || part.begin % grain != 0) bad = 1;
          for (std::int64_t i = part.begin; i < part.end; ++i) ++touched[static_cast<std::size_t>(i)];
        });
        CHECK(bad == 0);
        CHECK(std::all_of(touched.begin(), touched.end(), [](int n) { return n == 1; }));
      }
    }
  }
}

TEST_CASE("thread pool: shares are a function of the numbers alone, in order, and differ by at most one grain",
          "[core][fast]") {
  for (const unsigned threads : {1U, 2U, 3U, 7U}) {
    for (const std::int64_t count : {0, 1, 5, 100, 101}) {
      std::int64_t at = 0;
      for (unsigned i = 0; i < threads; ++i) {
        const index_range part = share_of(count, i, threads, 4);
        CHECK(part.begin == at);
        CHECK(part.size() <= (count + 3) / 4 / threads * 4 + 4);
        at = part.end;
      }
      CHECK(at == count);
    }
  }
}

TEST_CASE("thread pool: thousands of short calls, also with more threads than cores", "[core][fast]") {
  for (const unsigned threads : {1U, 2U, 3U, 4U, 2 * std::thread::hardware_concurrency() + 1}) {
    thread_pool pool{threads};
    std::vector<int> calls(16 * std::size_t{threads}, 0);  // plain ints: the pool itself must order the accesses
    std::int64_t sum = 0;
    for (int round = 1; round <= 2000; ++round) {
      pool.run([&](unsigned index) { calls[16 * std::size_t{index}] = round; });
      for (unsigned i = 0; i < threads; ++i) sum += calls[16 * std::size_t{i}];
    }
    REQUIRE(sum == std::int64_t{threads} * 2000 * 2001 / 2);
  }
}

TEST_CASE("thread pool: can be made and destroyed at once, used or not", "[core][fast]") {
  std::atomic<int> calls{0};
  for (int round = 0; round < 200; ++round) {
    const thread_pool unused{3};
    thread_pool used{3};
    used.run([&](unsigned) { calls.fetch_add(1, std::memory_order_relaxed); });
  }
  CHECK(calls == 600);
}

TEST_CASE("thread pool: ranges are cut at the grain, four for each thread at most", "[core][fast]") {
  thread_pool pool{3};
  for (const std::int64_t count : {1, 63, 64, 65, 127, 129, 200, 1000}) {
    std::vector<int> touched(static_cast<std::size_t>(count), 0);
    std::atomic<unsigned> parts{0};
    std::atomic<int> off_grain{0};
    pool.for_range(count, 64, [&](index_range part) {
      ++parts;
      if (part.begin % 64 != 0 || (part.end % 64 != 0 && part.end != count)) ++off_grain;
      for (std::int64_t i = part.begin; i < part.end; ++i) ++touched[static_cast<std::size_t>(i)];
    });
    REQUIRE(touched == std::vector<int>(touched.size(), 1));
    REQUIRE(off_grain == 0);
    REQUIRE(parts == std::min<std::int64_t>(4 * 3, (count + 63) / 64));
  }
}

TEST_CASE("share_of: no thread has more than one grain above another", "[core][fast]") {
  for (const std::int64_t count : {5, 100, 12'345}) {
    for (unsigned threads = 1; threads <= 9; ++threads) {
      std::int64_t least = count;
      std::int64_t most = 0;
      for (unsigned i = 0; i < threads; ++i) {
        const std::int64_t size = share_of(count, i, threads).size();
        least = std::min(least, size);
        most = std::max(most, size);
      }
      REQUIRE(most - least <= 1);
    }
  }
  static_assert(share_of(std::int64_t{1} << 40, 3, 4).end == std::int64_t{1} << 40);
}

TEST_CASE("thread pool: functions that are const, held elsewhere or only movable are called in place", "[core][fast]") {
  thread_pool pool{2};
  std::atomic<int> calls{0};
  const auto constant = [&](unsigned) { ++calls; };
  pool.run(constant);
  pool.run([&calls, box = std::make_unique<int>(5)](unsigned) { calls += *box; });
  struct counter {
    std::atomic<int> here{0};
    void operator()(unsigned) { ++here; }
  } mutable_one;
  pool.run(mutable_one);
  CHECK(calls == 2 + 10);
  CHECK(mutable_one.here == 2);  // the object itself, no copy
}
