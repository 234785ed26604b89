// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PARALLEL_SERVING_BLOCK_MESSAGES_HPP
#define CAUSEWAY_PARALLEL_SERVING_BLOCK_MESSAGES_HPP

// What clients and the servers of frozen blocks say to each other. Rows travel as data, not as messages: a request's under
// its number, and so does the answer, the other way. An answer of one byte is a refusal.

#include <causeway/collective/channels.hpp>
#include <causeway/config/config.hpp>
#include <causeway/core/result.hpp>
#include <causeway/net/envelope.hpp>
#include <causeway/nn/adapters.hpp>
#include <causeway/nn/model_part.hpp>
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

namespace detail {

struct span_field {
  nn::block_range& blocks;

  CAUSEWAY_DECL void put(net::byte_writer& out) const;
  CAUSEWAY_DECL void get(net::byte_reader& in) const;
};

/// From 1 on.
struct count_field {
  std::uint32_t& count;

  void put(net::byte_writer& out) const { out.put(count); }
  void get(net::byte_reader& in) const {
    net::below{count, most_tokens}.get(in);
    if (count == 0) in.refuse();
  }
};

}  // namespace detail

/// From a server to everybody: it holds these blocks, for so long.
struct announcement {
  std::uint32_t milliseconds = 0;
  stage::span_offer offer{};
  double throughput = 0;  ///< rows a second through all of its blocks

  void fields(auto& wire) {
    wire(milliseconds, detail::span_field{offer.blocks}, offer.seconds, offer.load, throughput,
         detail::count_field{offer.most_requests}, detail::count_field{offer.most_rows});
    wire.must(offer.seconds >= 0 && offer.seconds <= longest_seconds && offer.load >= 0 && offer.load <= longest_seconds &&
              throughput >= 0);
  }
};

/// From a server: where others can be dialled.
struct addresses {
  std::vector<std::string> list{};

  void fields(auto& wire) {
    wire(net::list{list, most_addresses, [](auto& w, std::string& a) { w(net::text{a, longest_address}); }});
  }
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

  void fields(auto& wire) {
    wire(number, net::below{backward, 2}, detail::span_field{blocks}, detail::count_field{sequences},
         detail::count_field{tokens}, prompts, x_bytes, net::below{adapters.rank, nn::adapter_shape::most_rank + 1},
         adapters.maps);
    wire.must(prompts <= tokens);
  }
};

/// To be sent back at once.
struct probe {
  std::uint64_t mark = 0;

  void fields(auto& wire) { wire(mark); }
};
struct echo {
  std::uint64_t mark = 0;

  void fields(auto& wire) { wire(mark); }
};

using message = std::variant<announcement, addresses, request, probe, echo>;

/// The byte of a refusal.
inline constexpr std::byte not_here{0};    ///< it holds other blocks by now, or has no memory
inline constexpr std::byte not_finite{1};  ///< what comes out is not finite

CAUSEWAY_DECL [[nodiscard]] net::message_id request_id(std::uint64_t number);
CAUSEWAY_DECL [[nodiscard]] net::message_id answer_id(std::uint64_t number);

CAUSEWAY_DECL [[nodiscard]] std::vector<std::byte> encode(std::uint64_t run, const message& m);

/// As net::envelope::open.
CAUSEWAY_DECL [[nodiscard]] result<message> decode(std::uint64_t run, std::span<const std::byte> bytes);

}}}}  // namespace causeway::CAUSEWAY_ABI::parallel::block_wire

#ifndef CAUSEWAY_COMPILED
#include <causeway/parallel/serving/impl/block_messages.ipp>
#endif

#endif  // CAUSEWAY_PARALLEL_SERVING_BLOCK_MESSAGES_HPP
