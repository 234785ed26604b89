// SPDX-License-Identifier: Apache-2.0
#include <causeway/parallel/elastic/block_store.hpp>

#include <causeway/io/memory_storage.hpp>

#include <cstdint>
#include <optional>
#include <vector>

#include "support/catch.hpp"

namespace causeway {
namespace {

using parallel::block_store;
using parallel::step_record;

const std::vector<float> contents{1, 2, 3};

void save_all(block_store& store, const step_record& w, std::int64_t blocks) {
  for (std::int64_t b = 0; b < blocks; ++b) REQUIRE(store.save(w, b, contents));
}

}  // namespace

TEST_CASE("block store: the newest state of which every block is there", "[parallel][fast]") {
  io::memory_storage disk;
  block_store store{io::any_storage{disk}, "run"};
  CHECK_FALSE(store.newest(3).value().has_value());
  const step_record at4{4, 44, 1.5}, at6{6, 66, 2.5};
  save_all(store, at4, 3);
  CHECK(store.newest(3).value() == std::optional{at4});
  save_all(store, at6, 2);  // one is missing
  CHECK(store.newest(3).value() == std::optional{at4});
  save_all(store, at6, 3);
  CHECK(store.newest(3).value() == std::optional{at6});
  std::vector<float> got(3);
  REQUIRE(store.load(at6, 2, got));
  CHECK(got == contents);
}

TEST_CASE("block store: a torn file and a state of another history do not count", "[parallel][fast]") {
  io::memory_storage disk;
  block_store store{io::any_storage{disk}, "run"};
  const step_record at4{4, 44, 1.5}, at6{6, 66, 2.5}, other{6, 67, 2.5};
  save_all(store, at4, 3);
  save_all(store, at6, 3);
  REQUIRE(store.save(other, 1, contents));
  CHECK(store.newest(3).value() == std::optional{at4});
  std::vector<float> got(3);
  CHECK(store.load(at6, 1, got).error().code == errc::not_found);
  REQUIRE(store.save(at6, 1, contents));
  const auto names = disk.list("run/block-2").value();
  const std::string newest = "run/block-2/" + names.back();
  auto bytes = disk.read(newest).value();
  bytes.resize(bytes.size() - 5);
  REQUIRE(disk.write_atomic(newest, io::produce(bytes)));
  CHECK(store.newest(3).value() == std::optional{at4});
}

TEST_CASE("block store: what peers have between them counts", "[parallel][fast]") {
  io::memory_storage near, far;
  block_store here{io::any_storage{near}, "run"}, there{io::any_storage{far}, "run"};
  const step_record at4{4, 44, 1.5}, at6{6, 66, 2.5};
  save_all(here, at4, 2);
  REQUIRE(there.save(at4, 1, contents));
  REQUIRE(there.save(at4, 2, contents));
  save_all(here, at6, 2);
  std::vector<parallel::saved_states> both{here.found(3).value(), there.found(3).value()};
  CHECK(both[0][0].state == at6);
  CHECK(both[0][1].state == at4);
  CHECK((both[1][0].has(1) && both[1][0].has(2) && !both[1][0].has(0)));
  CHECK(parallel::newest_together(both, 3) == std::optional{at4});
  CHECK_FALSE(parallel::newest_together({both.data(), 1}, 3).has_value());
  REQUIRE(there.save({6, 67, 2.5}, 2, contents));  // of another history
  both[1] = there.found(3).value();
  CHECK(parallel::newest_together(both, 3) == std::optional{at4});
  REQUIRE(there.save(at6, 2, contents));
  both[1] = there.found(3).value();
  CHECK(parallel::newest_together(both, 3) == std::optional{at6});
}

TEST_CASE("block store: who reaches the same storage finds the same number, and nobody else", "[parallel][fast]") {
  io::memory_storage near, far;
  block_store first{io::any_storage{near}, "run"}, second{io::any_storage{near}, "run"};
  CHECK(first.identity(5).value() == 5);
  CHECK(second.identity(6).value() == 5);
  CHECK(block_store{io::any_storage{far}, "run"}.identity(7).value() == 7);
}

}  // namespace causeway
