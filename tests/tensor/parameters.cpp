// SPDX-License-Identifier: Apache-2.0
#include <causeway/tensor/parameters.hpp>

#include <algorithm>
#include <cstdint>
#include <string>

#include "support/catch.hpp"

using namespace causeway;

namespace {

parameter_store small_model() {
  parameter_store store;
  store.add("embedding", parameter_kind::embedding, 5, 3);
  store.add("block.0.weight", parameter_kind::matrix, 4, 8, 0);
  store.add("block.0.bias", parameter_kind::vector, 1, 8, 0);
  store.allocate();
  return store;
}

}  // namespace

TEST_CASE("parameters: pieces lie one after the other on 64-byte boundaries", "[tensor][fast]") {
  parameter_store store = small_model();
  const auto segments = store.segments();
  REQUIRE(segments.size() == 3);
  CHECK(segments[0].offset == 0);
  CHECK(segments[1].offset == 16);  // 15 values, padded to a line of 16
  CHECK(segments[2].offset == 48);
  CHECK(store.length() == 64);
  CHECK(store.count() == 15 + 32 + 8);
  CHECK(store.values().size() == 64);
  CHECK(store.gradients().size() == 64);
  for (std::size_t i = 0; i < segments.size(); ++i) {
    CHECK(store.value(i) == store.values().data() + segments[i].offset);
    CHECK(store.gradient(i) == store.gradients().data() + segments[i].offset);
    CHECK(reinterpret_cast<std::uintptr_t>(store.value(i)) % 64 == 0);
  }
}

TEST_CASE("parameters: values and gradients start at zero and do not share memory", "[tensor][fast]") {
  parameter_store store = small_model();
  std::fill(store.values().begin(), store.values().end(), 2.0F);
  CHECK(std::all_of(store.gradients().begin(), store.gradients().end(), [](float g) { return g == 0.0F; }));
  const parameter_view view = store.view();
  CHECK(view.values.data() == store.values().data());
  CHECK(view.gradients.data() == store.gradients().data());
  CHECK(view.segments.size() == 3);
}

TEST_CASE("parameters: the layout hash tells models apart that cannot share a run", "[tensor][fast]") {
  const auto hash_of = [](const char* name, std::int64_t rows, std::int64_t columns) {
    parameter_store store;
    store.add(name, parameter_kind::matrix, rows, columns);
    return store.layout_hash();
  };
  CHECK(small_model().layout_hash() == small_model().layout_hash());
  CHECK(hash_of("a", 4, 8) == hash_of("a", 4, 8));
  CHECK(hash_of("a", 4, 8) != hash_of("b", 4, 8));
  CHECK(hash_of("a", 4, 8) != hash_of("a", 8, 4));
}

TEST_CASE("parameters: the version moves when somebody changes values from outside", "[tensor][fast]") {
  parameter_store store = small_model();
  const std::uint64_t before = store.version();
  store.touch();
  CHECK(store.version() != before);
}
