// SPDX-License-Identifier: Apache-2.0
// A part of the parameters, as if it were all.
#include <causeway/train/parameter_window.hpp>

#include <cstdint>

#include "support/catch.hpp"

using namespace causeway;

TEST_CASE("parameter window: a part has its own segments, from zero, and by default it is all", "[train][fast]") {
  parameter_store store;
  store.add("a", parameter_kind::vector, 1, 16);
  store.add("b", parameter_kind::matrix, 4, 5, 0);
  store.add("c", parameter_kind::matrix, 4, 8, 0);
  store.add("d", parameter_kind::vector, 1, 3, 1);
  store.allocate();
  const parameter_view all = store.view();
  CHECK(detail::parameter_window{}.of(all).values.data() == all.values.data());
  CHECK(detail::parameter_window{}.of(all).values.size() == all.values.size());

  const detail::parameter_window window{all, all.values.subspan(16, 64)};
  const parameter_view part = window.of(all);
  CHECK(part.values.data() == store.value(1));
  CHECK(part.gradients.data() == store.gradient(1));
  CHECK(part.values.size() == 64);
  CHECK(part.gradients.size() == 64);
  REQUIRE(part.segments.size() == 2);
  CHECK(part.segments[0].name == "b");
  CHECK(part.segments[0].offset == 0);
  CHECK(part.segments[1].name == "c");
  CHECK(part.segments[1].offset == 32);
}
