// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_NET_OPERATIONS_HPP
#define CAUSEWAY_NET_OPERATIONS_HPP

// The sends and receives that were started and not yet waited for. A handle carries its slot and the slot's generation, so
// that an old handle never names a newer operation. Not thread-safe: its owner locks.

#include <causeway/core/clock.hpp>
#include <causeway/core/result.hpp>
#include <causeway/net/transport.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace net { namespace detail {

using slot_index = std::uint32_t;
inline constexpr slot_index no_slot = UINT32_MAX;

/// One send or receive. Its buffer belongs to the caller; nobody touches it once `done`.
struct pending_operation {
  bool is_send = false;
  bool used = false;
  bool done = false;
  peer_index peer = 0;
  message_id id = {};
  const std::byte* source = nullptr;  ///< of a send
  std::byte* target = nullptr;        ///< of a receive
  std::size_t length = 0;             ///< bytes to send, or room to receive into
  std::size_t taken = 0;              ///< bytes of a send that streams took over so far
  std::size_t moved = 0;              ///< bytes that are through
  std::uint64_t sequence = 0;         ///< of a send, once its first chunk was taken
  std::uint32_t generation = 0;
  time_point since = {};
  std::shared_ptr<const error> failure = {};  ///< few fail, and of a thousand peers each has thousands of operations
};

class operation_table {
 public:
  CAUSEWAY_DECL slot_index start(const pending_operation& what);

  pending_operation& operator[](slot_index slot) { return slots_[slot]; }

  /// Slots so far, used or free.
  [[nodiscard]] slot_index size() const noexcept { return static_cast<slot_index>(slots_.size()); }

  CAUSEWAY_DECL [[nodiscard]] operation handle(slot_index slot) const;

  /// The slot that a handle names, or `no_slot`.
  CAUSEWAY_DECL [[nodiscard]] slot_index find(operation handle) const;

  /// Whether it has ended, or was never there.
  CAUSEWAY_DECL [[nodiscard]] bool done(operation handle) const;

  void finish(slot_index slot) { slots_[slot].done = true; }

  CAUSEWAY_DECL void finish(slot_index slot, error failure);

  /// The outcome of a finished operation; its slot becomes free.
  CAUSEWAY_DECL result<std::size_t> release(slot_index slot);

  /// Calls `visit(slot)`, which may finish operations but start none.
  template <class F>
  void for_each_unfinished_slot(F&& visit) const {
    for (slot_index slot = 0; slot < slots_.size(); ++slot) {
      if (slots_[slot].used && !slots_[slot].done) visit(slot);
    }
  }

  template <class F>
  void for_each_unfinished(F&& visit) const {
    for (const pending_operation& op : slots_) {
      if (op.used && !op.done) visit(op);
    }
  }

 private:
  std::vector<pending_operation> slots_;
  std::vector<slot_index> free_;
};

inline std::string peer_name(peer_index peer) { return "peer " + std::to_string(peer); }

/// "channel 1, epoch 0, step 12".
CAUSEWAY_DECL std::string to_text(const message_id& id);

}}}}  // namespace causeway::CAUSEWAY_ABI::net::detail

#ifndef CAUSEWAY_COMPILED
#include <causeway/net/impl/operations.ipp>
#endif

#endif  // CAUSEWAY_NET_OPERATIONS_HPP
