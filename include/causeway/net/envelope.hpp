// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_NET_ENVELOPE_HPP
#define CAUSEWAY_NET_ENVELOPE_HPP

// What all control messages between peers have in common: format, run, kind, fields. A message is a variant; the place of a
// kind in it is its number on the wire, so kinds are appended, never reordered.

#include <causeway/config/config.hpp>
#include <causeway/core/error.hpp>
#include <causeway/core/result.hpp>
#include <causeway/net/codec.hpp>
#include <causeway/net/fields.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace net { namespace envelope {

/// A family of messages.
struct kind {
  std::string_view name;     ///< for errors: "swarm message"
  std::string_view differs;  ///< what else may differ where the run does: ", or of another model"
  std::uint8_t format = 1;
};

namespace detail {

template <std::size_t I = 0, class Message, class... Context>
void read_kind(byte_reader& in, std::size_t which, Message& m, const Context&... context) {
  if constexpr (I < std::variant_size_v<Message>) {
    if (which != I) return read_kind<I + 1>(in, which, m, context...);
    get_fields(in, m.template emplace<I>(), context...);
  } else {
    in.refuse();
  }
}

}  // namespace detail

/// `context` is for those kinds whose `fields` take it.
template <class Message, class... Context>
[[nodiscard]] std::vector<std::byte> seal(const kind& k, std::uint64_t run, const Message& m, const Context&... context) {
  byte_writer out;
  out.put(k.format).put(run).put(static_cast<std::uint8_t>(m.index()));
  std::visit([&](const auto& which) { put_fields(out, which, context...); }, m);
  return std::move(out).take();
}

/// errc::version_mismatch, errc::wrong_run for another run's, errc::corrupt or errc::too_large for what no encoder makes.
template <class Message, class... Context>
[[nodiscard]] result<Message> open(const kind& k, std::uint64_t run, std::span<const std::byte> bytes,
                                   const Context&... context) {
  byte_reader in{bytes};
  if (in.get<std::uint8_t>() != k.format) {
    return fail(errc::version_mismatch, std::string{k.name}, "another format; all peers must run the same version");
  }
  if (in.get<std::uint64_t>() != run && in.ok()) {
    return fail(errc::wrong_run, std::string{k.name}, "it is of another run" + std::string{k.differs});
  }
  const auto which = in.get<std::uint8_t>();
  result<Message> m{Message{}};
  detail::read_kind(in, which, *m, context...);
  if (const auto end = in.finish(k.name); !end) return end.error();
  return m;
}

}}}}  // namespace causeway::CAUSEWAY_ABI::net::envelope

#endif  // CAUSEWAY_NET_ENVELOPE_HPP
