// SPDX-License-Identifier: Apache-2.0
#include <causeway/stage/recovery_morph.hpp>

#include <cstdint>
#include <vector>

#include "cluster_snapshots.hpp"
#include "support/catch.hpp"

namespace causeway {

TEST_CASE("morph: the shape follows the number of peers, the global batch stays", "[stage][fast]") {
  stage::recovery::morph_options o;
  o.calibration = {{1}, std::vector<plan::cut_point>(4, {{1}, {2}, 0, 2, 0}), 0, {}, {}};
  o.device_memory = 4;  // two blocks
  stage::recovery::morph policy{o};
  for (std::uint64_t n = 2; n <= 6; ++n) {
    CAPTURE(n);
    const auto made = policy.arrange(newcomers(4, 8, n));
    REQUIRE(made);
    CHECK(made->check(4, 8));
    CHECK(made->replicas[0].assignments.size() >= 2);
    CHECK(made->replicas.size() * made->replicas[0].assignments.size() <= n);
  }
  CHECK(policy.arrange(newcomers(4, 8, 1)).error().code == errc::out_of_memory);
}

TEST_CASE("morph: a calibration of another model is refused", "[stage][fast]") {
  stage::recovery::morph_options o;
  o.calibration = {{1}, std::vector<plan::cut_point>(3, {{1}, {2}, 0, 2, 0}), 0, {}, {}};
  CHECK(stage::recovery::morph{o}.arrange(newcomers(4, 8, 2)).error().code == errc::invalid_argument);
  CHECK(stage::recovery::morph{}.arrange(newcomers(4, 8, 2)));
}

}  // namespace causeway
