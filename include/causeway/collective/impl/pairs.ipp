// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_COLLECTIVE_IMPL_PAIRS_IPP
#define CAUSEWAY_COLLECTIVE_IMPL_PAIRS_IPP

#include <causeway/collective/pairs.hpp>

#include <numeric>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace collective {

CAUSEWAY_DECL std::optional<net::peer_index> partner_of(net::peer_index self, std::uint32_t peers, rng draw) {
  std::vector<net::peer_index> order(peers);
  std::iota(order.begin(), order.end(), 0U);
  shuffle(order, draw);
  for (std::size_t i = 0; i + 1 < order.size(); i += 2) {
    if (order[i] == self) return order[i + 1];
    if (order[i + 1] == self) return order[i];
  }
  return std::nullopt;
}

CAUSEWAY_DECL result<void> average_pair(net::any_transport& transport, net::peer_index other, const net::message_id& id,
                                        std::span<float> data, std::span<float> received, time_point deadline) {
  const auto inward = transport.receive(other, id, std::as_writable_bytes(received));
  const auto outward = transport.send(other, id, std::as_bytes(data));
  const auto sent = transport.wait(outward, deadline);
  const auto got = transport.wait(inward, deadline);
  if (!sent) return sent.error();
  if (!got) return got.error();
  if (*got != data.size_bytes()) {
    return fail(errc::protocol, "peer " + std::to_string(other),
                "sent parameters of another size; check that it trains the same model");
  }
  for (std::size_t i = 0; i < data.size(); ++i) data[i] = 0.5F * (data[i] + received[i]);
  return {};
}

}}}  // namespace causeway::CAUSEWAY_ABI::collective

#endif  // CAUSEWAY_COLLECTIVE_IMPL_PAIRS_IPP
