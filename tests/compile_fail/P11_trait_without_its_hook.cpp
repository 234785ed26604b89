// expect: causeway-P11
// SPDX-License-Identifier: Apache-2.0
#include "common.hpp"

struct without_replay : good_comm {
  static constexpr causeway::comm_traits traits{.replays = true};
  static constexpr bool replays() { return true; }
  causeway::result<void> replays_it(auto&) { return {}; }  // here
};

causeway::trainer<support::quadratic, without_replay> t{support::quadratic{}};

void use() {
  (void)t.start();
  (void)t.step({});
  (void)t.finish();
}
