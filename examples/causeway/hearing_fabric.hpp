// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_EXAMPLES_HEARING_FABRIC_HPP
#define CAUSEWAY_EXAMPLES_HEARING_FABRIC_HPP

// A fabric that tells, besides, the addresses of the peers that it meets.

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "forwarding_fabric.hpp"

namespace app {

class hearing_fabric final : public overhearing_fabric {
 public:
  hearing_fabric(std::shared_ptr<fabric> over, std::function<void(const std::string&)> heard)
      : overhearing_fabric{std::move(over)}, heard_{std::move(heard)} {}

 private:
  void on_up(causeway::net::peer_index link, causeway::net::peer_id id, const std::string& address) override {
    heard_(address);
    overhearing_fabric::on_up(link, id, address);
  }

  std::function<void(const std::string&)> heard_;
};

}  // namespace app

#endif  // CAUSEWAY_EXAMPLES_HEARING_FABRIC_HPP
