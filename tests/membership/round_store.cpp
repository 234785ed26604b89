// SPDX-License-Identifier: Apache-2.0
#include <causeway/membership/round_store.hpp>

#include <causeway/io/memory_storage.hpp>

#include <array>
#include <numeric>

#include "support/catch.hpp"

using namespace causeway;

namespace {

struct state {
  std::vector<float> values = std::vector<float>(100);
  std::uint64_t counter = 0;

  std::vector<std::span<std::byte>> parts() {
    return {std::as_writable_bytes(std::span{values}), std::as_writable_bytes(std::span{&counter, 1})};
  }
};

}  // namespace

TEST_CASE("round store: gives back what was saved, under its hash", "[membership][fast]") {
  io::memory_storage disk;
  membership::round_store store{io::any_storage{disk}, "rounds"};
  state s;
  std::iota(s.values.begin(), s.values.end(), 1.0F);
  s.counter = 42;
  REQUIRE(store.save(7, 3, 0xABC, s.parts()));
  state other;
  CHECK(store.load(3, 0xABC, other.parts()));
  CHECK(other.values == s.values);
  CHECK(other.counter == 42);
}

TEST_CASE("round store: a round of another model leaves the state as it was", "[membership][fast]") {
  membership::round_store store{io::any_storage{io::memory_storage{}}, "rounds"};
  state s;
  REQUIRE(store.save(7, 3, 1, s.parts()));
  state other;
  other.values.assign(50, 9.0F);
  CHECK(store.load(3, 1, other.parts()).error().code == errc::wrong_model);
  CHECK(store.load(3, 2, s.parts()).error().code == errc::not_found);
  CHECK(other.values == std::vector<float>(50, 9.0F));
  CHECK(store.load(4, 1, s.parts()).error().code == errc::not_found);
}

TEST_CASE("round store: what only this peer has lies beside the round, and is left alone where it does not",
          "[membership][fast]") {
  io::memory_storage disk;
  membership::round_store store{io::any_storage{disk}, "rounds"};
  state s, own;
  own.counter = 5;
  REQUIRE(store.save(7, 1, 11, s.parts(), {}, own.parts()));
  REQUIRE(store.save(7, 2, 22, s.parts()));
  state back;
  CHECK(store.load(1, 11, s.parts(), back.parts()));
  CHECK(back.counter == 5);
  back.counter = 6;
  CHECK(store.load(2, 22, s.parts(), back.parts()));
  CHECK(back.counter == 6);
  membership::round_store branch{io::any_storage{disk}, "branch"};
  REQUIRE(branch.take_over(store, 11, 8, 1));
  CHECK(branch.load(1, 11, s.parts(), back.parts()));
  CHECK(back.counter == 5);
}

TEST_CASE("round store: the round before a torn one is still there", "[membership][fast]") {
  io::memory_storage disk{{.tear_write = 2, .tear_at = 200}};
  membership::round_store store{io::any_storage{disk}, "rounds"};
  state s;
  s.counter = 1;
  REQUIRE(store.save(7, 1, 11, s.parts()));
  s.counter = 2;
  REQUIRE(store.save(7, 2, 22, s.parts()));
  state back;
  CHECK(store.load(2, 22, back.parts()).error().code == errc::corrupt);
  CHECK(store.load(1, 11, back.parts()));
  CHECK(back.counter == 1);
  CHECK(store.rounds().value() == std::vector<std::uint64_t>{1, 2});
}
