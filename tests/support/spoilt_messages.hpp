// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TESTS_SUPPORT_SPOILT_MESSAGES_HPP
#define CAUSEWAY_TESTS_SUPPORT_SPOILT_MESSAGES_HPP

// Control messages with bytes changed behind their envelope, for decoders that must not read or write elsewhere.

#include <causeway/core/rng.hpp>

#include <cstddef>
#include <vector>

#include "support/catch.hpp"

namespace support {

/// `encode(message)` and `decode(bytes)` are those of the family. What decodes takes no more bytes than it came from.
template <class Message, class Encode, class Decode>
void check_spoilt(const std::vector<Message>& messages, Encode encode, Decode decode) {
  causeway::rng draw{1, 2};
  for (const Message& m : messages) {
    const auto good = encode(m);
    for (int i = 0; i < 2000; ++i) {
      auto bytes = good;
      for (int k = 0; k < 3; ++k) bytes[9 + draw.below(bytes.size() - 9)] = static_cast<std::byte>(draw.below(256));
      const auto back = decode(bytes);  // the sanitizers look on
      if (back) CHECK(encode(*back).size() <= bytes.size());
    }
  }
}

}  // namespace support

#endif  // CAUSEWAY_TESTS_SUPPORT_SPOILT_MESSAGES_HPP
