// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PARALLEL_IMPL_SWARM_MAIL_IPP
#define CAUSEWAY_PARALLEL_IMPL_SWARM_MAIL_IPP

// Bodies of parallel/swarm_mail.hpp.

#include <causeway/parallel/swarm_mail.hpp>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace parallel {

CAUSEWAY_DECL swarm_mail::swarm_mail(net::fabric& fabric) : fabric_{fabric}, mail_{fabric} {}

CAUSEWAY_DECL std::vector<swarm_mail::arrival> swarm_mail::collect() { return mail_.collect(); }

CAUSEWAY_DECL bool swarm_mail::any_done() const { return mail_.any_done(); }

CAUSEWAY_DECL void swarm_mail::send(net::peer_index to, const swarm_wire::parcel& p, boundary_bytes bytes) {
  mail_.send(to, id_of(p), std::move(bytes));
}

CAUSEWAY_DECL void swarm_mail::expect(net::peer_index from, const swarm_wire::parcel& p, std::size_t most) {
  mail_.expect(from, id_of(p), p, most);
}

CAUSEWAY_DECL std::uint32_t swarm_mail::epoch_of(std::uint64_t turn) noexcept {
  return static_cast<std::uint32_t>(swarm_wire::step_of(turn)) + 1;
}

CAUSEWAY_DECL net::message_id swarm_mail::id_of(const swarm_wire::parcel& p) {
  return {.channel = collective::channels::activations, .epoch = epoch_of(p.turn), .step = p.serial};
}

}}}  // namespace causeway::CAUSEWAY_ABI::parallel

#endif  // CAUSEWAY_PARALLEL_IMPL_SWARM_MAIL_IPP
