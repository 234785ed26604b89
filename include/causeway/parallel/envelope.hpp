// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PARALLEL_ENVELOPE_HPP
#define CAUSEWAY_PARALLEL_ENVELOPE_HPP

// What all control messages between peers of a layout have in common: format, run, kind, fields. A message is a variant;
// the place of a kind in it is its number on the wire, so kinds are appended, never reordered.

#include <causeway/config/config.hpp>
#include <causeway/core/error.hpp>
#include <causeway/core/result.hpp>
#include <causeway/net/codec.hpp>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace parallel { namespace envelope {

/// A family of messages.
struct kind {
  std::string_view name;     ///< for errors: "swarm message"
  std::string_view differs;  ///< what else may differ where the run does
  std::uint8_t format = 1;
};

inline void put_real(net::byte_writer& out, double v) { out.put(std::bit_cast<std::uint64_t>(v)); }
/// A finite one.
CAUSEWAY_DECL double get_real(net::byte_reader& in);
CAUSEWAY_DECL std::uint8_t get_flag(net::byte_reader& in);
CAUSEWAY_DECL std::uint32_t get_below(net::byte_reader& in, std::uint32_t limit);

namespace detail {

template <class Message, class Read, std::size_t I = 0>
Message read_kind(net::byte_reader& in, std::size_t which, Read& read) {
  if constexpr (I < std::variant_size_v<Message>) {
    if (which != I) return read_kind<Message, Read, I + 1>(in, which, read);
    std::variant_alternative_t<I, Message> m;
    read(in, m);
    return m;
  } else {
    in.refuse();
    return {};
  }
}

}  // namespace detail

/// `write(out, alternative)` writes the fields.
template <class Message, class Write>
[[nodiscard]] std::vector<std::byte> seal(const kind& k, std::uint64_t run, const Message& m, Write write) {
  net::byte_writer out;
  out.put(k.format).put(run).put(static_cast<std::uint8_t>(m.index()));
  std::visit([&](const auto& which) { write(out, which); }, m);
  return std::move(out).take();
}

/// errc::version_mismatch, errc::wrong_run for another run's, errc::corrupt or errc::too_large for what no encoder makes.
/// `read(in, alternative)` reads the fields.
template <class Message, class Read>
[[nodiscard]] result<Message> open(const kind& k, std::uint64_t run, std::span<const std::byte> bytes, Read read) {
  net::byte_reader in{bytes};
  if (in.get<std::uint8_t>() != k.format) {
    return fail(errc::version_mismatch, std::string{k.name}, "another format; all peers must run the same version");
  }
  if (in.get<std::uint64_t>() != run && in.ok()) {
    return fail(errc::wrong_run, std::string{k.name}, "it is of another run, or of another " + std::string{k.differs});
  }
  const auto which = in.get<std::uint8_t>();
  result<Message> m{detail::read_kind<Message>(in, which, read)};
  if (const auto end = in.finish(k.name); !end) return end.error();
  return m;
}

}}}}  // namespace causeway::CAUSEWAY_ABI::parallel::envelope

#ifndef CAUSEWAY_COMPILED
#include <causeway/parallel/impl/envelope.ipp>
#endif

#endif  // CAUSEWAY_PARALLEL_ENVELOPE_HPP
