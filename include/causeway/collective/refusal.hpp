// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_COLLECTIVE_REFUSAL_HPP
#define CAUSEWAY_COLLECTIVE_REFUSAL_HPP

// "The values of peer p cannot be used", as eight bytes. A peer whose values are refused must not make the others wait: a
// collective goes on to its end, tells everybody whose values were refused, and then fails on all peers alike.

#include <causeway/core/error.hpp>
#include <causeway/core/result.hpp>
#include <causeway/net/transport.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>

namespace causeway::inline CAUSEWAY_ABI::collective {

/// Whose values were refused and why. `peer` equal to the number of peers: nobody's; the sum itself is too large for f32
/// (errc::non_finite), or there are no weights to divide by (errc::invalid_argument). Other codes are of this peer's
/// device.
struct refusal {
  std::uint32_t peer = 0;
  errc code = errc::non_finite;
  bool told = false;  ///< by another peer: this one has not seen the values
};

using refusal_bytes = std::array<std::byte, 8>;

inline refusal_bytes to_bytes(const refusal& r) noexcept {
  const std::uint32_t words[2] = {r.peer, static_cast<std::uint32_t>(r.code)};
  refusal_bytes bytes;
  std::memcpy(bytes.data(), words, sizeof words);
  return bytes;
}

/// Reads what a peer claims; nullopt when it makes no sense.
inline std::optional<refusal> from_bytes(std::span<const std::byte> bytes, std::uint32_t peers) noexcept {
  if (bytes.size() != sizeof(refusal_bytes)) return std::nullopt;
  std::uint32_t words[2];
  std::memcpy(words, bytes.data(), sizeof words);
  const auto code = static_cast<errc>(words[1]);
  const bool known = code == errc::non_finite || code == errc::corrupt || code == errc::protocol;
  const bool weights = code == errc::invalid_argument && words[0] == peers;
  if (words[0] > peers || words[1] > 0xFFFFU || !(known || weights)) return std::nullopt;
  return refusal{words[0], code, true};
}

/// Keeps one of several refusals: the lowest peer's, so that all peers report the same one. What this peer saw itself
/// counts for more than what it was told of the same peer.
inline void note(std::optional<refusal>& kept, const refusal& r) noexcept {
  const bool seen = kept && r.peer == kept->peer && !r.told;
  if (!kept || r.peer < kept->peer || seen) kept = r;
}

/// error::culprit is the refused peer, unless this one was only told.
inline error to_error(const refusal& r, std::uint32_t peers) {
  if (r.peer == peers && r.code == errc::invalid_argument) {
    return fail(errc::invalid_argument, "exchange",
                "the weights of all peers add up to 0: nobody contributes to this mean");
  }
  if (r.peer == peers && r.code != errc::non_finite) {
    return fail(r.code, "exchange", "this peer's device failed while it added the messages");
  }
  if (r.peer == peers) {
    return fail(errc::non_finite, "all-reduce", "the sum of finite values is too large for f32; lower the learning rate");
  }
  const char* what = r.code == errc::non_finite ? "its values hold NaN or infinity; nobody uses this round's result"
                     : r.code == errc::corrupt  ? "its values cannot be decoded; nobody uses this round's result"
                                                : "it sent the wrong number of bytes; do all peers run the same options?";
  error e = fail(r.code, "peer " + std::to_string(r.peer), what);
  if (!r.told) e.culprit = r.peer;
  return e;
}

}  // namespace causeway::inline CAUSEWAY_ABI::collective

#endif  // CAUSEWAY_COLLECTIVE_REFUSAL_HPP
