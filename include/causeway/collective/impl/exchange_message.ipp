// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_COLLECTIVE_IMPL_EXCHANGE_MESSAGE_IPP
#define CAUSEWAY_COLLECTIVE_IMPL_EXCHANGE_MESSAGE_IPP

#include <causeway/collective/exchange_message.hpp>

#include <cmath>
#include <cstring>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace collective { namespace detail {

CAUSEWAY_DECL void write_header(std::span<std::byte> room, float weight, std::size_t values, const refusal& bad) {
  const message_header h{weight, static_cast<std::uint32_t>(values), bad.peer, static_cast<std::uint32_t>(bad.code)};
  std::memcpy(room.data(), &h, sizeof h);
}

CAUSEWAY_DECL bool write_own_header(std::span<std::byte> room, const exchange_row& row, std::size_t values,
                                    net::peer_index self) {
  CAUSEWAY_EXPECT(row.weight >= 0);
  CAUSEWAY_EXPECT(row.refused == errc{} || row.refused == errc::non_finite || row.refused == errc::corrupt ||
                  row.refused == errc::protocol);
  if (row.refused != errc{}) {
    write_header(room, 0, values, refusal{self, row.refused});
    return false;
  }
  write_header(room, row.weight, values);
  return row.weight > 0;
}

CAUSEWAY_DECL peer_message read_message(net::peer_index from, std::span<const std::byte> bytes, std::size_t values,
                                        std::uint32_t peers) {
  peer_message m{.peer = from};
  message_header h;
  if (bytes.size() < sizeof h) {
    m.bad = refusal{from, errc::protocol};
    return m;
  }
  std::memcpy(&h, bytes.data(), sizeof h);
  m.bytes = bytes.subspan(sizeof h);
  if (h.code != 0) {
    m.bad = from_bytes(bytes.subspan(offsetof(message_header, refused), sizeof(refusal_bytes)), peers)
                .value_or(refusal{from, errc::corrupt});
    if (m.bad->peer == from) m.bad->told = false;  // it says so of itself
  } else if (h.values != static_cast<std::uint32_t>(values)) {
    m.bad = refusal{from, errc::protocol};
  } else if (!std::isfinite(h.weight) || h.weight < 0 || (h.weight == 0 && !m.bytes.empty())) {
    m.bad = refusal{from, errc::corrupt};
  } else {
    m.weight = h.weight;
  }
  return m;
}

CAUSEWAY_DECL refusal refused_contribution(net::peer_index from, const refusal& said) {
  return {from, said.code == errc::invalid_argument ? errc::protocol : said.code};
}

CAUSEWAY_DECL float mean_factor(double total_weight) {
  const float factor = 1.0F / static_cast<float>(total_weight);
  return total_weight > 0 && std::isfinite(factor) ? factor : 0.0F;
}

}}}}  // namespace causeway::CAUSEWAY_ABI::collective::detail

#endif  // CAUSEWAY_COLLECTIVE_IMPL_EXCHANGE_MESSAGE_IPP
