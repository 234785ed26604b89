// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PARALLEL_ELASTIC_BLOCK_SAVERS_HPP
#define CAUSEWAY_PARALLEL_ELASTIC_BLOCK_SAVERS_HPP

// Which peer saves a block that several hold: in each storage the first of those that reach it. Machines may share one
// storage or have one each, and nobody needs to say which it is.

#include <causeway/config/config.hpp>
#include <causeway/core/metrics.hpp>
#include <causeway/core/result.hpp>
#include <causeway/parallel/elastic/block_store.hpp>
#include <causeway/parallel/elastic/peer_inventory.hpp>

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace parallel {

/// For the trainer's thread.
class block_savers {
 public:
  CAUSEWAY_DECL void begin(block_store store);
  /// None: nothing is saved.
  [[nodiscard]] const std::optional<block_store>& store() const noexcept { return store_; }
  [[nodiscard]] bool saves() const noexcept { return store_.has_value(); }

  /// The identity of this peer's storage, for peer_inventory; 0: it has none, or cannot reach it. Looked at until peers
  /// have met once: by then whoever wrote last has written. `fresh`: another number on each peer.
  CAUSEWAY_DECL std::uint64_t identity(std::uint64_t fresh, const log_sink& log);

  /// Who is there, and what they said.
  CAUSEWAY_DECL void met(const cluster_inventory& inventory);

  /// Whether `self`, among the holders of a block, is the one that saves it. Ids; equal lists on all peers.
  CAUSEWAY_DECL [[nodiscard]] bool is_first(const std::vector<std::uint64_t>& holders, std::uint64_t self) const;

  /// What is saved where this peer looks; nothing where it has no storage.
  CAUSEWAY_DECL result<saved_states> found(std::int64_t layers);

 private:
  std::optional<block_store> store_;
  std::map<std::uint64_t, std::uint64_t> storage_of_;  // by id of the peer
  std::uint64_t own_ = 0;
  unsigned looked_ = 0;
};

}}}  // namespace causeway::CAUSEWAY_ABI::parallel

#ifndef CAUSEWAY_COMPILED
#include <causeway/parallel/elastic/impl/block_savers.ipp>
#endif

#endif  // CAUSEWAY_PARALLEL_ELASTIC_BLOCK_SAVERS_HPP
