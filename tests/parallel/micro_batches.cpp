// SPDX-License-Identifier: Apache-2.0
#include <causeway/parallel/micro_batches.hpp>

#include "support/catch.hpp"

#include <cstdint>
#include <vector>

namespace {

using namespace causeway;

TEST_CASE("a batch is cut into equal micro-batches, or refused with the remedy", "[parallel][fast]") {
  const std::vector<std::int32_t> tokens(12);
  const batch six{tokens, tokens, 6};
  for (const std::int64_t pieces : {1, 2, 3, 6}) CHECK(parallel::check_batch("pipeline", six, pieces));
  for (const std::int64_t pieces : {-1, 0, 4, 12}) {
    const auto refused = parallel::check_batch("pipeline", six, pieces);
    REQUIRE_FALSE(refused);
    CHECK(refused.error().code == errc::invalid_argument);
    CHECK_THAT(refused.error().text(), Catch::Contains("6 sequences") && Catch::Contains("choose a divisor"));
  }
  CHECK_FALSE(parallel::check_batch("pipeline", batch{}, 1));
}

TEST_CASE("the number of micro-batches fits a message id", "[parallel][fast]") {
  CHECK(parallel::check_micro_batches("swarm", 1));
  CHECK(parallel::check_micro_batches("swarm", (1 << parallel::most_micro_batch_bits) - 1));
  CHECK_FALSE(parallel::check_micro_batches("swarm", 0));
  CHECK_FALSE(parallel::check_micro_batches("swarm", 1 << parallel::most_micro_batch_bits));
}

}  // namespace
