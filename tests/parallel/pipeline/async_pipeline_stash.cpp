// SPDX-License-Identifier: Apache-2.0
#include <causeway/parallel/pipeline/async_pipeline_stash.hpp>

#include <cstdint>
#include <vector>

#include "support/catch.hpp"

namespace causeway::parallel {

TEST_CASE("weight stash: versions are exchanged with the live values, and exchanged back", "[parallel][fast]") {
  thread_pool pool{2};
  weight_stash stash;
  std::vector<float> live(50000, 1.0F);
  const std::vector<float> first(live.size(), 1.0F), third(live.size(), 3.0F), now(live.size(), 4.0F);
  stash.keep(pool, 1, live);
  live = third;
  stash.keep(pool, 3, live);
  live = now;
  CHECK(stash.size() == 2);

  REQUIRE(stash.swap(pool, 1, live));
  CHECK((live == first));
  REQUIRE(stash.swap(pool, 1, live));
  CHECK((live == now));
  REQUIRE(stash.swap(pool, 3, live));
  CHECK((live == third));
  REQUIRE(stash.swap(pool, 3, live));
  CHECK((live == now));
}

TEST_CASE("weight stash: a step that is not kept, or not any more, changes nothing", "[parallel][fast]") {
  thread_pool pool;
  weight_stash stash;
  std::vector<float> live(8, 1.0F);
  CHECK_FALSE(stash.swap(pool, 0, live));
  for (std::uint64_t step = 2; step < 6; ++step) stash.keep(pool, step, live);
  stash.forget_before(4);
  CHECK(stash.size() == 2);
  live.assign(8, 2.0F);
  CHECK_FALSE(stash.swap(pool, 3, live));
  CHECK(live == std::vector<float>(8, 2.0F));
  CHECK(stash.swap(pool, 4, live));
  CHECK(live == std::vector<float>(8, 1.0F));

  std::vector<float> other(8, 5.0F);  // memory that was forgotten is used again, for what is kept now
  stash.keep(pool, 6, other);
  other.assign(8, 0.0F);
  REQUIRE(stash.swap(pool, 6, other));
  CHECK(other == std::vector<float>(8, 5.0F));
}

}  // namespace causeway::parallel
