// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PARALLEL_EXPERT_MESSAGES_HPP
#define CAUSEWAY_PARALLEL_EXPERT_MESSAGES_HPP

// What trainers and the hosts of experts say to each other, and its bytes: format, run, kind, fields. Rows of values are
// f32, 4 bytes each, low byte first.

#include <causeway/config/config.hpp>
#include <causeway/core/result.hpp>
#include <causeway/net/codec.hpp>
#include <causeway/net/fabric.hpp>
#include <causeway/parallel/envelope.hpp>
#include <causeway/stage/expert_directory.hpp>

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <variant>
#include <vector>

namespace causeway::inline CAUSEWAY_ABI::parallel::expert_wire {

inline constexpr std::uint32_t most_experts = 1U << 14U;  ///< of a host

/// From a host to everybody: these experts are here, for so long.
struct announcement {
  std::uint32_t milliseconds = 0;
  std::vector<stage::expert_id> experts{};
};

/// From a trainer. A forward has x; a backward x and then the gradient of the output, both [rows, width].
struct request {
  std::uint64_t number = 0;  ///< names it among those of its trainer
  std::uint8_t backward = 0;
  stage::expert_id expert = 0;
  std::vector<float> values{};
};

/// The output, or the gradient of the input; none where the host refused.
struct answer {
  std::uint64_t number = 0;
  std::vector<float> values{};
};

/// The place in the list is the kind on the wire: append, never reorder.
using message = std::variant<announcement, request, answer>;

/// Values that fit one message, whatever its kind.
inline constexpr std::size_t most_values = (net::max_post_bytes - 64) / sizeof(float);

namespace detail {

inline constexpr envelope::kind messages{"expert message", "grid or width of experts", 1};

inline void put_values(net::byte_writer& out, std::span<const float> values) {
  out.put(static_cast<std::uint32_t>(values.size()));
  for (const float v : values) out.put(std::bit_cast<std::uint32_t>(v));
}
inline std::vector<float> get_values(net::byte_reader& in) {
  const auto count = in.get<std::uint32_t>();
  if (std::size_t{count} * sizeof(float) > in.remaining()) in.refuse();
  std::vector<float> values(in.ok() ? count : 0);
  for (float& v : values) {
    v = std::bit_cast<float>(in.get<std::uint32_t>());
    if (!std::isfinite(v)) in.refuse();
  }
  return values;
}

inline void write(net::byte_writer& out, const announcement& m) {
  out.put(m.milliseconds).put(static_cast<std::uint32_t>(m.experts.size()));
  for (const stage::expert_id e : m.experts) out.put(e);
}
inline void read(net::byte_reader& in, announcement& m) {
  m.milliseconds = in.get<std::uint32_t>();
  const auto count = in.get<std::uint32_t>();
  if (count > most_experts) in.refuse();
  for (std::uint32_t i = 0; i < count && in.ok(); ++i) m.experts.push_back(in.get<std::uint64_t>());
}

inline void write(net::byte_writer& out, const request& m) {
  put_values(out.put(m.number).put(m.backward).put(m.expert), m.values);
}
inline void read(net::byte_reader& in, request& m) {
  m.number = in.get<std::uint64_t>();
  m.backward = in.get<std::uint8_t>();
  if (m.backward > 1) in.refuse();
  m.expert = in.get<std::uint64_t>();
  m.values = get_values(in);
}

inline void write(net::byte_writer& out, const answer& m) { put_values(out.put(m.number), m.values); }
inline void read(net::byte_reader& in, answer& m) {
  m.number = in.get<std::uint64_t>();
  m.values = get_values(in);
}

}  // namespace detail

[[nodiscard]] inline std::vector<std::byte> encode(std::uint64_t run, const message& m) {
  return envelope::seal(detail::messages, run, m,
                        [](net::byte_writer& out, const auto& which) { detail::write(out, which); });
}

/// As envelope::open; values that are not finite are refused as well.
[[nodiscard]] inline result<message> decode(std::uint64_t run, std::span<const std::byte> bytes) {
  return envelope::open<message>(detail::messages, run, bytes,
                                 [](net::byte_reader& in, auto& which) { detail::read(in, which); });
}

}  // namespace causeway::inline CAUSEWAY_ABI::parallel::expert_wire

#endif  // CAUSEWAY_PARALLEL_EXPERT_MESSAGES_HPP
