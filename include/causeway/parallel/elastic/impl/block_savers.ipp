// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PARALLEL_ELASTIC_IMPL_BLOCK_SAVERS_IPP
#define CAUSEWAY_PARALLEL_ELASTIC_IMPL_BLOCK_SAVERS_IPP

#include <causeway/parallel/elastic/block_savers.hpp>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace parallel {

CAUSEWAY_DECL void block_savers::begin(block_store store) { store_ = std::move(store); }

CAUSEWAY_DECL std::uint64_t block_savers::identity(std::uint64_t fresh, const log_sink& log) {
  if (!store_ || (own_ != 0 && looked_ > 1)) return own_;
  const auto id = store_->identity(fresh | 1U);
  if (!id && looked_ == 0) log(severity::warning, "blocks cannot be saved: " + id.error().text());
  ++looked_;
  return own_ = id ? *id : 0;
}

CAUSEWAY_DECL void block_savers::met(const cluster_inventory& inventory) {
  storage_of_.clear();
  for (std::size_t p = 0; p < inventory.snapshot.peers.size(); ++p) {
    storage_of_[inventory.snapshot.peers[p].id] = inventory.storages[p];
  }
}

CAUSEWAY_DECL bool block_savers::is_first(const std::vector<std::uint64_t>& holders, std::uint64_t self) const {
  for (const std::uint64_t holder : holders) {
    const auto at = storage_of_.find(holder);
    if (at != storage_of_.end() && at->second == own_) return holder == self;
  }
  return false;
}

CAUSEWAY_DECL result<saved_states> block_savers::found(std::int64_t layers) {
  return store_ ? store_->found(layers) : result<saved_states>{saved_states{}};
}

}}}  // namespace causeway::CAUSEWAY_ABI::parallel

#endif  // CAUSEWAY_PARALLEL_ELASTIC_IMPL_BLOCK_SAVERS_IPP
