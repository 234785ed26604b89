// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TESTS_SUPPORT_FIRST_LINK_HPP
#define CAUSEWAY_TESTS_SUPPORT_FIRST_LINK_HPP

// Waits for a connection, for tests of what goes over one.

#include <causeway/core/error.hpp>
#include <causeway/net/fabric.hpp>

#include <cstddef>
#include <optional>
#include <span>
#include <string>

namespace support {

struct first_link final : causeway::net::fabric_events {
  void on_up(causeway::net::peer_index l, causeway::net::peer_id, const std::string&) override { link = l; }
  void on_down(causeway::net::peer_index, const causeway::error&) override {}
  void on_unreachable(const std::string&, const causeway::error&) override {}
  void on_control(causeway::net::peer_index, std::span<const std::byte>) override {}
  void on_wake() override {}
  std::optional<causeway::net::peer_index> link;  ///< that came up last
};

}  // namespace support

#endif  // CAUSEWAY_TESTS_SUPPORT_FIRST_LINK_HPP
