// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TESTS_COMPILE_FAIL_COMMON_HPP
#define CAUSEWAY_TESTS_COMPILE_FAIL_COMMON_HPP

// Policies that are right, for the files beside this one to get wrong in one place each.

#include <causeway/train/trainer.hpp>

#include "support/quadratic.hpp"

struct good_comm {
  static constexpr std::string_view name = "good_comm";
  static constexpr causeway::comm_traits traits{};
  static constexpr std::uint32_t state_version = 1;
  causeway::result<void> start(auto&) { return {}; }
  causeway::result<void> before_inner_step(auto&) { return {}; }
  causeway::result<void> after_inner_step(auto&) { return {}; }
  causeway::result<void> finish(auto&) { return {}; }
  void serialize(auto&) {}
};

struct elastic_fault {
  static constexpr std::string_view name = "elastic_fault";
  static constexpr causeway::fault_traits traits{.produces = causeway::peers::elastic};
  static constexpr std::uint32_t state_version = 1;
  causeway::result<void> begin_step(auto&) { return {}; }
  causeway::result<causeway::verdict> end_step(auto&, const causeway::result<void>&) { return causeway::verdict::commit; }
  void serialize(auto&) {}
};

struct staged_parallel {
  static constexpr std::string_view name = "staged_parallel";
  static constexpr causeway::parallel_traits traits{.staged = true, .global_step = false};
  static constexpr std::uint32_t state_version = 1;
  causeway::result<void> start(auto&) { return {}; }
  causeway::result<double> forward_backward(auto&, const causeway::batch&) { return 0.0; }
  causeway::result<float> norm(auto&) { return 0.0F; }
  causeway::result<void> after_step(auto&) { return {}; }
  causeway::result<double> evaluate(auto&, const causeway::batch&) { return 0.0; }
  void serialize(auto&) {}
};

#endif  // CAUSEWAY_TESTS_COMPILE_FAIL_COMMON_HPP
