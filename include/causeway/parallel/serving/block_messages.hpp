// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PARALLEL_SERVING_BLOCK_MESSAGES_HPP
#define CAUSEWAY_PARALLEL_SERVING_BLOCK_MESSAGES_HPP

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

namespace causeway { inline namespace CAUSEWAY_ABI { namespace parallel { namespace block_wire {

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
  CAUSEWAY_DECL [[nodiscard]] double work() const noexcept;
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

CAUSEWAY_DECL [[nodiscard]] net::message_id request_id(std::uint64_t number);
CAUSEWAY_DECL [[nodiscard]] net::message_id answer_id(std::uint64_t number);

namespace detail {

inline constexpr envelope::kind messages{"block message", "model or codec", 2};

CAUSEWAY_DECL void write(net::byte_writer& out, const nn::block_range& r);
CAUSEWAY_DECL void read(net::byte_reader& in, nn::block_range& r);
CAUSEWAY_DECL double get_seconds(net::byte_reader& in);
CAUSEWAY_DECL std::uint32_t get_positive(net::byte_reader& in);

CAUSEWAY_DECL void write(net::byte_writer& out, const announcement& m);
CAUSEWAY_DECL void read(net::byte_reader& in, announcement& m);

CAUSEWAY_DECL void write(net::byte_writer& out, const addresses& m);
CAUSEWAY_DECL void read(net::byte_reader& in, addresses& m);

CAUSEWAY_DECL void write(net::byte_writer& out, const request& m);
CAUSEWAY_DECL void read(net::byte_reader& in, request& m);

inline void write(net::byte_writer& out, const probe& m) { out.put(m.mark); }
inline void read(net::byte_reader& in, probe& m) { m.mark = in.get<std::uint64_t>(); }
inline void write(net::byte_writer& out, const echo& m) { out.put(m.mark); }
inline void read(net::byte_reader& in, echo& m) { m.mark = in.get<std::uint64_t>(); }

}  // namespace detail

CAUSEWAY_DECL [[nodiscard]] std::vector<std::byte> encode(std::uint64_t run, const message& m);

/// As envelope::open.
CAUSEWAY_DECL [[nodiscard]] result<message> decode(std::uint64_t run, std::span<const std::byte> bytes);

}}}}  // namespace causeway::CAUSEWAY_ABI::parallel::block_wire

#ifndef CAUSEWAY_COMPILED
#include <causeway/parallel/serving/impl/block_messages.ipp>
#endif

#endif  // CAUSEWAY_PARALLEL_SERVING_BLOCK_MESSAGES_HPP
