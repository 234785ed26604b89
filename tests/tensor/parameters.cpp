// SPDX-License-Identifier: Apache-2.0
#include <causeway/tensor/parameters.hpp>

#include <algorithm>
#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

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

TEST_CASE("parameters: padding is zero and at most 15 values, for every size", "[tensor][fast]") {
  parameter_store store;
  for (std::int64_t n = 1; n <= 50; ++n) store.add("p" + std::to_string(n), parameter_kind::matrix, n % 3 + 1, n);
  store.allocate();
  const auto segments = store.segments();
  std::int64_t counted = 0;
  for (std::size_t i = 0; i < segments.size(); ++i) {
    std::fill_n(store.value(i), segments[i].size(), 1.0F);
    const std::int64_t end = i + 1 < segments.size() ? segments[i + 1].offset : store.length();
    const std::int64_t padding = end - segments[i].offset - segments[i].size();
    REQUIRE((padding >= 0 && padding < 16));
    REQUIRE(segments[i].offset % 16 == 0);
    counted += segments[i].size();
  }
  CHECK(store.count() == counted);
  // Every value was written and no other: pieces neither overlap nor reach into the padding.
  CHECK(std::count(store.values().begin(), store.values().end(), 1.0F) == counted);
  CHECK(std::count(store.values().begin(), store.values().end(), 0.0F) == store.length() - counted);
}

TEST_CASE("parameters: the layout hash changes with any name, any shape and the order", "[tensor][fast]") {
  struct piece {
    std::string name;
    std::int64_t rows, columns;
  };
  const auto hash_of = [](const std::vector<piece>& pieces) {
    parameter_store store;
    for (const auto& p : pieces) store.add(p.name, parameter_kind::matrix, p.rows, p.columns);
    return store.layout_hash();
  };
  const std::vector<piece> base{{"a", 2, 3}, {"b", 4, 4}, {"c", 1, 7}};
  std::set<std::uint64_t> seen{hash_of({}), hash_of(base), hash_of({base[1], base[0], base[2]}),
                               hash_of({base[0], base[1]})};
  for (std::size_t i = 0; i < base.size(); ++i) {
    auto changed = base;
    changed[i].name += "'";
    seen.insert(hash_of(changed));
    changed = base;
    ++changed[i].rows;
    seen.insert(hash_of(changed));
    changed = base;
    ++changed[i].columns;  // often within the padding: offsets and length stay
    seen.insert(hash_of(changed));
  }
  CHECK(seen.size() == 4 + 9);
}

TEST_CASE("parameters: values stay where they are when the store moves", "[tensor][fast]") {
  parameter_store first = small_model();
  first.value(1)[3] = 8.0F;
  const float* memory = first.value(1);
  parameter_store second = std::move(first);
  CHECK(second.value(1) == memory);
  CHECK(second.value(1)[3] == 8.0F);
  CHECK(second.segments()[1].name == "block.0.weight");
}
