// expect: causeway-P2
// SPDX-License-Identifier: Apache-2.0
#include "common.hpp"

struct idle {
  static constexpr std::string_view name = "idle";
  static constexpr causeway::parallel_traits traits{};
  static constexpr std::uint32_t state_version = 1;
  void serialize(auto&) {}
};

causeway::trainer<support::quadratic, idle> t{support::quadratic{}};

void use() {
  (void)t.start();
  (void)t.step({});
  (void)t.finish();
}
