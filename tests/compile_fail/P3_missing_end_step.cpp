// expect: causeway-P3
// SPDX-License-Identifier: Apache-2.0
#include "common.hpp"

struct never_judges {
  static constexpr std::string_view name = "never_judges";
  static constexpr causeway::fault_traits traits{};
  static constexpr std::uint32_t state_version = 1;
  causeway::result<void> begin_step(auto&) { return {}; }
  void serialize(auto&) {}
};

causeway::trainer<support::quadratic, never_judges> t{support::quadratic{}};

void use() {
  (void)t.start();
  (void)t.step({});
  (void)t.finish();
}
