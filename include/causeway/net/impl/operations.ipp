// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_NET_IMPL_OPERATIONS_IPP
#define CAUSEWAY_NET_IMPL_OPERATIONS_IPP

#include <causeway/net/operations.hpp>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace net { namespace detail {

CAUSEWAY_DECL slot_index operation_table::start(const pending_operation& what) {
  slot_index slot = no_slot;
  if (free_.empty()) {
    slot = static_cast<slot_index>(slots_.size());
    slots_.emplace_back();
  } else {
    slot = free_.back();
    free_.pop_back();
  }
  const std::uint32_t generation = slots_[slot].generation + 1;
  slots_[slot] = what;
  slots_[slot].used = true;
  slots_[slot].generation = generation;
  return slot;
}

CAUSEWAY_DECL operation operation_table::handle(slot_index slot) const {
  return operation{slots_[slot].generation} << 32U | (operation{slot} + 1);
}

CAUSEWAY_DECL slot_index operation_table::find(operation handle) const {
  const auto slot = static_cast<slot_index>((handle & UINT32_MAX) - 1);
  const bool known = slot < slots_.size() && slots_[slot].used && slots_[slot].generation == handle >> 32U;
  return known ? slot : no_slot;
}

CAUSEWAY_DECL bool operation_table::done(operation handle) const {
  const slot_index slot = find(handle);
  return slot == no_slot || slots_[slot].done;
}

CAUSEWAY_DECL void operation_table::finish(slot_index slot, error failure) {
  slots_[slot].failure = std::make_shared<const error>(std::move(failure));
  slots_[slot].done = true;
}

CAUSEWAY_DECL result<std::size_t> operation_table::release(slot_index slot) {
  pending_operation& op = slots_[slot];
  op.used = false;
  free_.push_back(slot);
  if (op.failure) return *op.failure;
  return op.moved;
}

CAUSEWAY_DECL std::string to_text(const message_id& id) {
  return "channel " + std::to_string(id.channel) + ", epoch " + std::to_string(id.epoch) + ", step " +
         std::to_string(id.step);
}

}}}}  // namespace causeway::CAUSEWAY_ABI::net::detail

#endif  // CAUSEWAY_NET_IMPL_OPERATIONS_IPP
