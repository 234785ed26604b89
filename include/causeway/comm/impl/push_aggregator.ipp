// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_COMM_IMPL_PUSH_AGGREGATOR_IPP
#define CAUSEWAY_COMM_IMPL_PUSH_AGGREGATOR_IPP

#include <causeway/comm/push_aggregator.hpp>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace comm { namespace detail {

CAUSEWAY_DECL std::vector<collective::peer_message> push_aggregator::weighted(std::span<const waiting_push> batch) {
  const auto raw = [](const waiting_push& w) {
    const auto samples = static_cast<double>(w.samples);
    return samples * samples / std::max(w.steps, 1U);
  };
  double most = 0;
  for (const waiting_push& w : batch) most = std::max(most, raw(w));
  std::vector<collective::peer_message> messages;
  for (std::uint32_t i = 0; i < batch.size(); ++i) {
    const float weight = most == 0 ? 1.0F : static_cast<float>(raw(batch[i]) / most);
    if (weight > 0) messages.push_back({.peer = i, .weight = weight, .bytes = std::as_bytes(std::span{batch[i].bytes})});
  }
  return messages;
}

}}}}  // namespace causeway::CAUSEWAY_ABI::comm::detail

#endif  // CAUSEWAY_COMM_IMPL_PUSH_AGGREGATOR_IPP
