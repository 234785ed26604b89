// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TESTS_NET_INBOX_MESSAGES_HPP
#define CAUSEWAY_TESTS_NET_INBOX_MESSAGES_HPP

// The message that tests of the inbox receive, and how they look at its buffer.

#include <causeway/net/transport.hpp>

#include <algorithm>
#include <cstddef>
#include <vector>

namespace inbox_messages {

inline constexpr causeway::net::message_id talk{.channel = 1, .epoch = 0, .step = 5, .parent = 9};

inline bool all_are(const std::vector<std::byte>& bytes, std::byte value) {
  return std::all_of(bytes.begin(), bytes.end(), [&](std::byte b) { return b == value; });
}

}  // namespace inbox_messages

#endif  // CAUSEWAY_TESTS_NET_INBOX_MESSAGES_HPP
