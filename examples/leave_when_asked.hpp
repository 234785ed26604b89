// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_EXAMPLES_LEAVE_WHEN_ASKED_HPP
#define CAUSEWAY_EXAMPLES_LEAVE_WHEN_ASKED_HPP

// A fault policy of one's own: the machine is to be taken away, and says so before (a spot instance's notice, SIGTERM of a
// job scheduler). The run ends between two steps, where it can be saved.

#include <causeway/policy/concepts.hpp>

#include <atomic>
#include <memory>

// [policy]
class leave_when_asked {
 public:
  static constexpr std::string_view name = "acme.leave_when_asked";
  static constexpr causeway::fault_traits traits{};
  static constexpr std::uint32_t state_version = 1;

  explicit leave_when_asked(const std::atomic<bool>* asked = nullptr) : asked_{asked} {}

  causeway::result<void> begin_step(auto&) {
    if (asked_ == nullptr || !asked_->load()) return {};
    return causeway::fail(causeway::errc::cancelled, "acme.leave_when_asked",
                          "this machine is taken away; save the run, and go on elsewhere");
  }
  causeway::result<causeway::verdict> end_step(auto&, const causeway::result<void>& outcome) {
    return outcome ? causeway::verdict::commit : causeway::verdict::abort;
  }
  void serialize(auto&) {}

 private:
  const std::atomic<bool>* asked_;  // of the program, which sets it; outlives the policy
};
// [policy]
static_assert(causeway::FaultPolicy<leave_when_asked>);

#endif  // CAUSEWAY_EXAMPLES_LEAVE_WHEN_ASKED_HPP
