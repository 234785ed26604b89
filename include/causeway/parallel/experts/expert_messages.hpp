// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PARALLEL_EXPERTS_EXPERT_MESSAGES_HPP
#define CAUSEWAY_PARALLEL_EXPERTS_EXPERT_MESSAGES_HPP

// What trainers and the hosts of experts say to each other, and its bytes: format, run, kind, fields. Rows of values are
// f32, 4 bytes each, low byte first.

#include <causeway/config/config.hpp>
#include <causeway/core/result.hpp>
#include <causeway/net/envelope.hpp>
#include <causeway/net/fabric.hpp>
#include <causeway/stage/expert_directory.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <variant>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace parallel { namespace expert_wire {

inline constexpr std::uint32_t most_experts = 1U << 14U;  ///< of a host
/// Values that fit one message, whatever its kind.
inline constexpr std::size_t most_values = (net::max_post_bytes - 64) / sizeof(float);

/// From a host to everybody: these experts are here, for so long.
struct announcement {
  std::uint32_t milliseconds = 0;
  std::vector<stage::expert_id> experts{};

  void fields(auto& wire) { wire(milliseconds, net::list{experts, most_experts}); }
};

/// From a trainer. A forward has x; a backward x and then the gradient of the output, both [rows, width].
struct request {
  std::uint64_t number = 0;  ///< names it among those of its trainer
  std::uint8_t backward = 0;
  stage::expert_id expert = 0;
  std::vector<float> values{};

  void fields(auto& wire) { wire(number, net::below{backward, 2}, expert, net::list{values, most_values}); }
};

/// The output, or the gradient of the input; none where the host refused.
struct answer {
  std::uint64_t number = 0;
  std::vector<float> values{};

  void fields(auto& wire) { wire(number, net::list{values, most_values}); }
};

/// The place in the list is the kind on the wire: append, never reorder.
using message = std::variant<announcement, request, answer>;

CAUSEWAY_DECL [[nodiscard]] std::vector<std::byte> encode(std::uint64_t run, const message& m);

/// As net::envelope::open; values that are not finite are refused as well.
CAUSEWAY_DECL [[nodiscard]] result<message> decode(std::uint64_t run, std::span<const std::byte> bytes);

}}}}  // namespace causeway::CAUSEWAY_ABI::parallel::expert_wire

#ifndef CAUSEWAY_COMPILED
#include <causeway/parallel/experts/impl/expert_messages.ipp>
#endif

#endif  // CAUSEWAY_PARALLEL_EXPERTS_EXPERT_MESSAGES_HPP
