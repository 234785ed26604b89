// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TESTS_PLAN_ORDERS_HPP
#define CAUSEWAY_TESTS_PLAN_ORDERS_HPP

#include <causeway/plan/schedule.hpp>

#include <string>
#include <vector>

namespace support {

/// A rank's order as pictures have it, such as "F0 F1 B0".
inline std::string order_text(const std::vector<causeway::plan::operation>& order) {
  std::string all;
  for (const causeway::plan::operation& op : order) all += (all.empty() ? "" : " ") + causeway::plan::to_string(op);
  return all;
}

}  // namespace support

#endif  // CAUSEWAY_TESTS_PLAN_ORDERS_HPP
