// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_MEMBERSHIP_TRANSFER_IMPL_TRANSFER_IPP
#define CAUSEWAY_MEMBERSHIP_TRANSFER_IMPL_TRANSFER_IPP

#include <causeway/membership/transfer/transfer.hpp>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace membership {

CAUSEWAY_DECL state_transfer::state_transfer(transfer_effects& fx, const transfer_options& options)
    : giving{options, fx}, taking{options, fx}, keeping{giving, fx}, kept{fx} {}

CAUSEWAY_DECL void state_transfer::peer_down(net::peer_id peer, time_point now) {
  keeping.peer_down(peer);
  kept.peer_down(peer);
  giving.peer_down(peer, now);
  taking.peer_down(peer, now);
}

CAUSEWAY_DECL result<void> state_transfer::message(net::peer_id from, std::span<const std::byte> bytes, time_point now) {
  const auto m = decode_transfer(bytes);
  if (!m) return ++malformed_, m.error();
  CAUSEWAY_TRY(giving.message(from, *m, now));
  if (m->kind == transfer_kind::keep) keeping.message(from, *m);
  kept.message(from, *m);
  taking.message(from, *m, now);
  return {};
}

CAUSEWAY_DECL void state_transfer::wake(time_point now) {
  taking.wake(now);
  giving.wake(now);
}

}}}  // namespace causeway::CAUSEWAY_ABI::membership

#endif  // CAUSEWAY_MEMBERSHIP_TRANSFER_IMPL_TRANSFER_IPP
