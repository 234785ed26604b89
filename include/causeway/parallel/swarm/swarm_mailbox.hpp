// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PARALLEL_SWARM_SWARM_MAILBOX_HPP
#define CAUSEWAY_PARALLEL_SWARM_SWARM_MAILBOX_HPP

// Boundary tensors on their way between the peers of a swarm. Each is announced by a message, a tensor_announcement; its
// data follows under the number in it. What belongs to steps that are over is cancelled by the fabric's epochs.

#include <causeway/collective/channels.hpp>
#include <causeway/config/config.hpp>
#include <causeway/net/fabric.hpp>
#include <causeway/parallel/swarm/micro_batch_state.hpp>
#include <causeway/parallel/swarm/swarm_messages.hpp>
#include <causeway/parallel/tensor_mailbox.hpp>

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace parallel {

/// For the trainer's thread, without the fabric's lock; `any_done` with it.
class swarm_mailbox {
 public:
  CAUSEWAY_DECL explicit swarm_mailbox(net::fabric& fabric);

  using arrival = tensor_mailbox<swarm_wire::tensor_announcement>::arrival;

  CAUSEWAY_DECL void send(net::peer_index to, const swarm_wire::tensor_announcement& p, boundary_bytes bytes);
  /// `most`: bytes of the boundary tensor, or more.
  CAUSEWAY_DECL void expect(net::peer_index from, const swarm_wire::tensor_announcement& p, std::size_t most);

  /// What has come, whole. What broke is passed over: its sender sends it again, or another peer does.
  CAUSEWAY_DECL [[nodiscard]] std::vector<arrival> collect();
  CAUSEWAY_DECL [[nodiscard]] bool any_done() const;

  /// What belongs to earlier steps is no longer received.
  void forget_before(std::uint64_t turn) { fabric_.cancel_before(epoch_of(turn)); }
  /// Ends what is under way.
  void clear() { mailbox_.clear(); }

 private:
  CAUSEWAY_DECL static std::uint32_t epoch_of(std::uint64_t turn) noexcept;
  CAUSEWAY_DECL static net::message_id id_of(const swarm_wire::tensor_announcement& p);

  net::fabric& fabric_;
  tensor_mailbox<swarm_wire::tensor_announcement> mailbox_;
};

}}}  // namespace causeway::CAUSEWAY_ABI::parallel

#ifndef CAUSEWAY_COMPILED
#include <causeway/parallel/swarm/impl/swarm_mailbox.ipp>
#endif

#endif  // CAUSEWAY_PARALLEL_SWARM_SWARM_MAILBOX_HPP
