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

namespace causeway { inline namespace CAUSEWAY_ABI { namespace parallel {

/// A step has fewer micro-batches than 2 to the power of this: message ids hold both numbers.
inline constexpr std::uint32_t most_micro_batch_bits = 20;

/// errc::invalid_argument unless `count` is from 1 to 2^most_micro_batch_bits - 1. `policy`: who says so.
CAUSEWAY_DECL [[nodiscard]] result<void> check_micro_batches(std::string_view policy, std::int64_t count);

/// errc::invalid_argument unless the batch has sequences that make `pieces` equal micro-batches.
CAUSEWAY_DECL [[nodiscard]] result<void> check_batch(std::string_view policy, const batch& b, std::int64_t pieces);

}}}  // namespace causeway::CAUSEWAY_ABI::parallel

#ifndef CAUSEWAY_COMPILED
#include <causeway/parallel/impl/micro_batches.ipp>
#endif

#endif  // CAUSEWAY_PARALLEL_MICRO_BATCHES_HPP
