// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_EXAMPLES_ANNOUNCING_FABRIC_HPP
#define CAUSEWAY_EXAMPLES_ANNOUNCING_FABRIC_HPP

// A fabric that says when it begins to answer. It listens long before that: until the model is there, and the ranks of a
// site have measured their ways, nobody is attached, and who dials meanwhile is accepted by the kernel and hears nothing.

#include <functional>
#include <memory>
#include <utility>

#include "forwarding_fabric.hpp"

namespace app {

class announcing_fabric final : public forwarding_fabric {
 public:
  announcing_fabric(std::shared_ptr<fabric> over, std::function<void()> answers)
      : forwarding_fabric{std::move(over)}, answers_{std::move(answers)} {}

  void attach(causeway::net::fabric_events* events) override {
    forwarding_fabric::attach(events);
    if (events != nullptr) answers_();
  }

 private:
  std::function<void()> answers_;
};

}  // namespace app

#endif  // CAUSEWAY_EXAMPLES_ANNOUNCING_FABRIC_HPP
