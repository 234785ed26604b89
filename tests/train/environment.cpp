// SPDX-License-Identifier: Apache-2.0
#include <causeway/train/environment.hpp>

#include "support/catch.hpp"

using namespace causeway;

TEST_CASE("environment: what is not said is one peer alone, with a modest rate", "[train][fast]") {
  const environment alone;
  CHECK(alone.group == nullptr);
  CHECK(alone.transport.size() == 1);
  const trainer_options options;
  CHECK(options.learning_rate.at(0) > 0);
  CHECK(options.clip_norm == 1.0F);
  CHECK(options.hash_every == 1);
}
