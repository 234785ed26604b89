// SPDX-License-Identifier: Apache-2.0
#include <causeway/parallel/elastic/block_savers.hpp>

#include <causeway/io/memory_storage.hpp>

#include <cstdint>
#include <utility>
#include <vector>

#include "support/catch.hpp"

using namespace causeway;

namespace {

/// Peers 1 and 2 on one machine, 3 on another, 4 without a storage.
parallel::cluster_inventory three_machines() {
  parallel::cluster_inventory inventory;
  for (const auto& [id, storage] : {std::pair{1U, 7U}, std::pair{2U, 7U}, std::pair{3U, 8U}, std::pair{4U, 0U}}) {
    inventory.snapshot.peers.push_back({.id = id, .holds = {}});
    inventory.storages.push_back(storage);
  }
  return inventory;
}

parallel::block_savers on(io::memory_storage& disk, std::uint64_t id) {
  parallel::block_savers s;
  s.begin(parallel::block_store{io::any_storage{disk}, "blocks"});
  CHECK(s.identity(id, {}) == id);
  s.met(three_machines());
  return s;
}

}  // namespace

TEST_CASE("block savers: in each storage the first of a block's holders saves it", "[parallel][fast]") {
  io::memory_storage near, far;
  const auto here = on(near, 7), there = on(far, 9);
  CHECK(here.is_first({1, 2, 3}, 1));
  CHECK_FALSE(here.is_first({1, 2, 3}, 2));
  CHECK(here.is_first({3, 2}, 2));
  CHECK_FALSE(here.is_first({3}, 1));
  CHECK_FALSE(there.is_first({1, 2}, 1));  // nobody said to be in this storage
}

TEST_CASE("block savers: a storage is looked at until peers have met, and none has no number", "[parallel][fast]") {
  io::memory_storage disk;
  parallel::block_savers s;
  CHECK(s.identity(5, {}) == 0);
  CHECK_FALSE(s.saves());
  CHECK(s.found(3).value()[0].state.step == 0);
  s.begin(parallel::block_store{io::any_storage{disk}, "blocks"});
  CHECK(s.identity(5, {}) == 5);
  REQUIRE(disk.remove("blocks/identity"));  // another peer wrote at the same time
  CHECK(parallel::block_store{io::any_storage{disk}, "blocks"}.identity(9).value() == 9);
  CHECK(s.identity(5, {}) == 9);
  REQUIRE(disk.remove("blocks/identity"));
  CHECK(s.identity(5, {}) == 9);  // not any more
}
