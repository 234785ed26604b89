// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_COLLECTIVE_IMPL_REFUSAL_IPP
#define CAUSEWAY_COLLECTIVE_IMPL_REFUSAL_IPP

#include <causeway/collective/refusal.hpp>

#include <cstring>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace collective {

CAUSEWAY_DECL refusal_bytes to_bytes(const refusal& r) noexcept {
  const std::uint32_t words[2] = {r.peer, static_cast<std::uint32_t>(r.code)};
  refusal_bytes bytes;
  std::memcpy(bytes.data(), words, sizeof words);
  return bytes;
}

CAUSEWAY_DECL std::optional<refusal> from_bytes(std::span<const std::byte> bytes, std::uint32_t peers) noexcept {
  if (bytes.size() != sizeof(refusal_bytes)) return std::nullopt;
  std::uint32_t words[2];
  std::memcpy(words, bytes.data(), sizeof words);
  const auto code = static_cast<errc>(words[1]);
  const bool known = code == errc::non_finite || code == errc::corrupt || code == errc::protocol;
  const bool of_all = (code == errc::invalid_argument || code == errc::unsupported) && words[0] == peers;
  if (words[0] > peers || words[1] > 0xFFFFU || !(known || of_all)) return std::nullopt;
  return refusal{words[0], code, true};
}

CAUSEWAY_DECL void note(std::optional<refusal>& kept, const refusal& r) noexcept {
  const bool seen = kept && r.peer == kept->peer && !r.told;
  if (!kept || r.peer < kept->peer || seen) kept = r;
}

CAUSEWAY_DECL error to_error(const refusal& r, std::uint32_t peers) {
  if (r.peer == peers && r.code == errc::invalid_argument) {
    return fail(errc::invalid_argument, "exchange",
                "the weights of all peers add up to 0: nobody contributes to this mean");
  }
  if (r.peer == peers && r.code == errc::unsupported) {
    return fail(errc::unsupported, "exchange",
                "tensors are clipped in the computer's memory, and these rows lie on a device; leave clips out, or use a "
                "codec of the computer's memory");
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

}}}  // namespace causeway::CAUSEWAY_ABI::collective

#endif  // CAUSEWAY_COLLECTIVE_IMPL_REFUSAL_IPP
