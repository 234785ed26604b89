// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PARALLEL_BLOCK_MESSAGES_HPP
#define CAUSEWAY_PARALLEL_BLOCK_MESSAGES_HPP

// What clients and the servers of frozen blocks say to each other. Rows travel as data, not as messages: a request's under
// its number, and so does the answer, the other way. An answer of one byte is a refusal.

#include <causeway/collective/channels.hpp>
#include <causeway/config/config.hpp>
#include <causeway/core/result.hpp>
#include <causeway/net/codec.hpp>
#include <causeway/net/fabric.hpp>
#include <causeway/nn/adapters.hpp>
#include <causeway/nn/model_part.hpp>
#include <causeway/parallel/envelope.hpp>
#include <causeway/stage/block_routing.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <variant>
#include <vector>

namespace causeway::inline CAUSEWAY_ABI::parallel::block_wire {

inline constexpr std::uint32_t most_layers = 1U << 16U;
inline constexpr std::uint32_t most_tokens = 1U << 24U;
inline constexpr std::uint32_t most_addresses = 64;
inline constexpr std::size_t longest_address = 256;
inline constexpr double longest_seconds = 1e6;

/// From a server to everybody: it holds these blocks, for so long.
struct announcement {
  std::uint32_t milliseconds = 0;
  stage::span_offer offer{};
  double throughput = 0;  ///< rows a second through all of its blocks
};

/// From a server: where others can be dialled.
struct addresses {
  std::vector<std::string> list{};
};

/// From a client. The data that follows: x, in a backward the gradient of the output, both encoded; then what is tuned of
/// the blocks as f32, low byte first. The answer: the output, or the gradient of x, encoded; in a backward then the
/// gradients of what is tuned.
struct request {
  std::uint64_t number = 0;  ///< names it among those of its client
  std::uint8_t backward = 0;
  nn::block_range blocks{};
  std::uint32_t sequences = 1;
  std::uint32_t tokens = 1;
  std::uint32_t prompts = 0;
  std::uint32_t x_bytes = 0;  ///< of the data, before the gradient or what is tuned
  nn::adapter_shape adapters{};

  [[nodiscard]] std::int64_t rows() const noexcept { return std::int64_t{sequences} * tokens; }
  [[nodiscard]] nn::block_tuning tuning() const noexcept { return {prompts, adapters}; }
  /// Rows times blocks; a backward computes the forward too.
  [[nodiscard]] double work() const noexcept {
    return static_cast<double>(rows()) * static_cast<double>(blocks.size()) * (backward != 0 ? 2.0 : 1.0);
  }
};

/// To be sent back at once.
struct probe {
  std::uint64_t mark = 0;
};
struct echo {
  std::uint64_t mark = 0;
};

using message = std::variant<announcement, addresses, request, probe, echo>;

/// The byte of a refusal.
inline constexpr std::byte not_here{0};    ///< it holds other blocks by now, or has no memory
inline constexpr std::byte not_finite{1};  ///< what comes out is not finite

[[nodiscard]] inline net::message_id request_id(std::uint64_t number) {
  return {.channel = collective::channels::activations, .epoch = 0, .step = number};
}
[[nodiscard]] inline net::message_id answer_id(std::uint64_t number) {
  return {.channel = collective::channels::activations + 1, .epoch = 0, .step = number};
}

namespace detail {

inline constexpr envelope::kind messages{"block message", "model or codec", 2};

inline void write(net::byte_writer& out, const nn::block_range& r) {
  out.put(static_cast<std::uint32_t>(r.first)).put(static_cast<std::uint32_t>(r.last));
}
inline void read(net::byte_reader& in, nn::block_range& r) {
  r.first = envelope::get_below(in, most_layers);
  r.last = envelope::get_below(in, most_layers + 1);
  if (r.size() < 1) in.refuse();
}
inline double get_seconds(net::byte_reader& in) {
  const double v = envelope::get_real(in);
  if (v < 0 || v > longest_seconds) in.refuse();
  return v;
}
inline std::uint32_t get_positive(net::byte_reader& in) {
  const auto v = envelope::get_below(in, most_tokens);
  if (v == 0) in.refuse();
  return v;
}

inline void write(net::byte_writer& out, const announcement& m) {
  write(out.put(m.milliseconds), m.offer.blocks);
  envelope::put_real(out, m.offer.seconds);
  envelope::put_real(out, m.offer.load);
  envelope::put_real(out, m.throughput);
  out.put(m.offer.most_requests).put(m.offer.most_rows);
}
inline void read(net::byte_reader& in, announcement& m) {
  m.milliseconds = in.get<std::uint32_t>();
  read(in, m.offer.blocks);
  m.offer.seconds = get_seconds(in);
  m.offer.load = get_seconds(in);
  m.throughput = envelope::get_real(in);
  if (m.throughput < 0) in.refuse();
  m.offer.most_requests = get_positive(in);
  m.offer.most_rows = get_positive(in);
}

inline void write(net::byte_writer& out, const addresses& m) {
  out.put(static_cast<std::uint32_t>(m.list.size()));
  for (const std::string& a : m.list) out.put_text(a);
}
inline void read(net::byte_reader& in, addresses& m) {
  const auto n = envelope::get_below(in, most_addresses + 1);
  for (std::uint32_t i = 0; i < n && in.ok(); ++i) m.list.push_back(in.get_text(longest_address));
}

inline void write(net::byte_writer& out, const request& m) {
  write(out.put(m.number).put(m.backward), m.blocks);
  out.put(m.sequences).put(m.tokens).put(m.prompts).put(m.x_bytes).put(m.adapters.rank).put(m.adapters.maps);
}
inline void read(net::byte_reader& in, request& m) {
  m.number = in.get<std::uint64_t>();
  m.backward = envelope::get_flag(in);
  read(in, m.blocks);
  m.sequences = get_positive(in);
  m.tokens = get_positive(in);
  m.prompts = in.get<std::uint32_t>();
  if (m.prompts > m.tokens) in.refuse();
  m.x_bytes = in.get<std::uint32_t>();
  m.adapters.rank = envelope::get_below(in, nn::adapter_shape::most_rank + 1);
  m.adapters.maps = in.get<std::uint8_t>();
}

inline void write(net::byte_writer& out, const probe& m) { out.put(m.mark); }
inline void read(net::byte_reader& in, probe& m) { m.mark = in.get<std::uint64_t>(); }
inline void write(net::byte_writer& out, const echo& m) { out.put(m.mark); }
inline void read(net::byte_reader& in, echo& m) { m.mark = in.get<std::uint64_t>(); }

}  // namespace detail

[[nodiscard]] inline std::vector<std::byte> encode(std::uint64_t run, const message& m) {
  return envelope::seal(detail::messages, run, m,
                        [](net::byte_writer& out, const auto& which) { detail::write(out, which); });
}

/// As envelope::open.
[[nodiscard]] inline result<message> decode(std::uint64_t run, std::span<const std::byte> bytes) {
  return envelope::open<message>(detail::messages, run, bytes,
                                 [](net::byte_reader& in, auto& which) { detail::read(in, which); });
}

}  // namespace causeway::inline CAUSEWAY_ABI::parallel::block_wire

#endif  // CAUSEWAY_PARALLEL_BLOCK_MESSAGES_HPP
