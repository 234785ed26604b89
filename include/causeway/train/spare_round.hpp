// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TRAIN_SPARE_ROUND_HPP
#define CAUSEWAY_TRAIN_SPARE_ROUND_HPP

// A round in memory of its own, beside the shared state: what a peer voted for before it was restarted. Others may need it.

#include <causeway/config/config.hpp>
#include <causeway/core/thread_pool.hpp>
#include <causeway/membership/round_store.hpp>
#include <causeway/membership/state_image.hpp>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI {

struct spare_round {
  std::uint64_t round = 0;
  std::deque<std::vector<std::byte>> memory;
  membership::state_image image;

  /// From `store`, in pieces as large as those of `like`. Null if it is not there whole, with that hash.
  CAUSEWAY_DECL static std::unique_ptr<spare_round> load(membership::round_store& store, std::uint64_t round,
                                                         std::uint64_t hash, std::span<const std::span<std::byte>> like,
                                                         thread_pool* pool);
};

}}  // namespace causeway::CAUSEWAY_ABI

#ifndef CAUSEWAY_COMPILED
#include <causeway/train/impl/spare_round.ipp>
#endif

#endif  // CAUSEWAY_TRAIN_SPARE_ROUND_HPP
