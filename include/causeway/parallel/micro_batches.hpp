// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PARALLEL_MICRO_BATCHES_HPP
#define CAUSEWAY_PARALLEL_MICRO_BATCHES_HPP

// How a batch may be cut into micro-batches, and what is said where it cannot.

#include <causeway/config/config.hpp>
#include <causeway/core/error.hpp>
#include <causeway/core/result.hpp>
#include <causeway/tensor/batch.hpp>

#include <cstdint>
#include <string>
#include <string_view>

namespace causeway::inline CAUSEWAY_ABI::parallel {

/// A step has fewer micro-batches than 2 to the power of this: message ids hold both numbers.
inline constexpr std::uint32_t most_micro_batch_bits = 20;

/// errc::invalid_argument unless `count` is from 1 to 2^most_micro_batch_bits - 1. `policy`: who says so.
[[nodiscard]] inline result<void> check_micro_batches(std::string_view policy, std::int64_t count) {
  if (count >= 1 && count < std::int64_t{1} << most_micro_batch_bits) return {};
  return fail(errc::invalid_argument, std::string{policy},
              std::to_string(count) + " micro-batches; choose at least 1, below a million");
}

/// errc::invalid_argument unless the batch has sequences that make `pieces` equal micro-batches.
[[nodiscard]] inline result<void> check_batch(std::string_view policy, const batch& b, std::int64_t pieces) {
  if (pieces >= 1 && b.sequences >= 1 && b.sequences % pieces == 0) return {};
  return fail(errc::invalid_argument, std::string{policy},
              "a batch of " + std::to_string(b.sequences) + " sequences cannot be cut into " + std::to_string(pieces) +
                  " equal micro-batches; choose a divisor");
}

}  // namespace causeway::inline CAUSEWAY_ABI::parallel

#endif  // CAUSEWAY_PARALLEL_MICRO_BATCHES_HPP
