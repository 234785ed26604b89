// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PARALLEL_SWARM_IMPL_SWARM_MAILBOX_IPP
#define CAUSEWAY_PARALLEL_SWARM_IMPL_SWARM_MAILBOX_IPP

// Bodies of parallel/swarm/swarm_mailbox.hpp.

#include <causeway/parallel/swarm/swarm_mailbox.hpp>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace parallel {

CAUSEWAY_DECL swarm_mailbox::swarm_mailbox(net::fabric& fabric) : fabric_{fabric}, mailbox_{fabric} {}

CAUSEWAY_DECL std::vector<swarm_mailbox::arrival> swarm_mailbox::collect() { return mailbox_.collect(); }

CAUSEWAY_DECL bool swarm_mailbox::any_done() const { return mailbox_.any_done(); }

CAUSEWAY_DECL void swarm_mailbox::send(net::peer_index to, const swarm_wire::tensor_announcement& p, boundary_bytes bytes) {
  mailbox_.send(to, id_of(p), std::move(bytes));
}

CAUSEWAY_DECL void swarm_mailbox::expect(net::peer_index from, const swarm_wire::tensor_announcement& p, std::size_t most) {
  mailbox_.expect(from, id_of(p), p, most);
}

CAUSEWAY_DECL std::uint32_t swarm_mailbox::epoch_of(std::uint64_t turn) noexcept {
  return static_cast<std::uint32_t>(swarm_wire::step_of(turn)) + 1;
}

CAUSEWAY_DECL net::message_id swarm_mailbox::id_of(const swarm_wire::tensor_announcement& p) {
  return {.channel = collective::channels::activations, .epoch = epoch_of(p.turn), .step = p.serial};
}

}}}  // namespace causeway::CAUSEWAY_ABI::parallel

#endif  // CAUSEWAY_PARALLEL_SWARM_IMPL_SWARM_MAILBOX_IPP
