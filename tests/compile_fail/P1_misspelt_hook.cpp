// expect: causeway-P1
// SPDX-License-Identifier: Apache-2.0
#include "common.hpp"

struct misspelt {
  static constexpr std::string_view name = "misspelt";
  static constexpr causeway::comm_traits traits{};
  static constexpr std::uint32_t state_version = 1;
  causeway::result<void> start(auto&) { return {}; }
  causeway::result<void> before_inner_step(auto&) { return {}; }
  causeway::result<void> after_inner_stp(auto&) { return {}; }  // here
  causeway::result<void> finish(auto&) { return {}; }
  void serialize(auto&) {}
};

causeway::trainer<support::quadratic, misspelt> t{support::quadratic{}};

void use() {
  (void)t.start();
  (void)t.step({});
  (void)t.finish();
}
