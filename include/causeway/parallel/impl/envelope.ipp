// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PARALLEL_IMPL_ENVELOPE_IPP
#define CAUSEWAY_PARALLEL_IMPL_ENVELOPE_IPP

// Bodies of parallel/envelope.hpp.

#include <causeway/parallel/envelope.hpp>

#include <cmath>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace parallel { namespace envelope {

CAUSEWAY_DECL double get_real(net::byte_reader& in) {
  const auto v = std::bit_cast<double>(in.get<std::uint64_t>());
  if (!std::isfinite(v)) in.refuse();
  return v;
}

CAUSEWAY_DECL std::uint8_t get_flag(net::byte_reader& in) {
  const auto v = in.get<std::uint8_t>();
  if (v > 1) in.refuse();
  return v;
}

CAUSEWAY_DECL std::uint32_t get_below(net::byte_reader& in, std::uint32_t limit) {
  const auto v = in.get<std::uint32_t>();
  if (v >= limit) in.refuse();
  return v;
}

}}}}  // namespace causeway::CAUSEWAY_ABI::parallel::envelope

#endif  // CAUSEWAY_PARALLEL_IMPL_ENVELOPE_IPP
