// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PARALLEL_IMPL_MICRO_BATCHES_IPP
#define CAUSEWAY_PARALLEL_IMPL_MICRO_BATCHES_IPP

#include <causeway/parallel/micro_batches.hpp>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace parallel {

CAUSEWAY_DECL result<void> check_micro_batches(std::string_view policy, std::int64_t count) {
  if (count >= 1 && count < std::int64_t{1} << most_micro_batch_bits) return {};
  return fail(errc::invalid_argument, std::string{policy},
              std::to_string(count) + " micro-batches; choose at least 1, below a million");
}

CAUSEWAY_DECL result<void> check_batch(std::string_view policy, const batch& b, std::int64_t pieces) {
  if (pieces >= 1 && b.sequences >= 1 && b.sequences % pieces == 0) return {};
  return fail(errc::invalid_argument, std::string{policy},
              "a batch of " + std::to_string(b.sequences) + " sequences cannot be cut into " + std::to_string(pieces) +
                  " equal micro-batches; choose a divisor");
}

}}}  // namespace causeway::CAUSEWAY_ABI::parallel

#endif  // CAUSEWAY_PARALLEL_IMPL_MICRO_BATCHES_IPP
