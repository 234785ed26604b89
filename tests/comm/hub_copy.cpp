// SPDX-License-Identifier: Apache-2.0
#include <causeway/comm/hub_copy.hpp>

#include <causeway/axis/outer.hpp>
#include <causeway/optim/nesterov.hpp>

#include <algorithm>

#include "support/catch.hpp"

using namespace causeway;
using namespace causeway::comm::detail;

namespace {

using outer = axis::outer<optim::nesterov>;
const std::vector<axis::fragment> cuts{{{{0, 16}}, {}, 16}, {{{16, 24}}, {}, 8}};

hub_copy<outer> moved(thread_pool& pool, int steps) {
  hub_copy<outer> copy;
  copy.found(cuts, std::vector<float>(24, 1.0F), outer{0.5F});
  std::vector<float> row(8, 0.25F);
  for (int i = 0; i < steps; ++i) copy.outers[1].step(pool, std::span{copy.shared}.last(8), row, {});
  return copy;
}

}  // namespace

TEST_CASE("hub copy: an heir goes on with the same bits", "[comm][fast]") {
  thread_pool pool{1};
  auto hub = moved(pool, 2);
  auto heir = moved(pool, 0);
  part_room room;
  const auto parts = room.like(hub.state());
  copy_parts(hub.state(), parts);
  copy_parts(parts, heir.state());
  CHECK(heir.shared == hub.shared);
  std::vector<float> row(8, 0.25F);
  hub.outers[1].step(pool, std::span{hub.shared}.last(8), row, {});
  heir.outers[1].step(pool, std::span{heir.shared}.last(8), row, {});
  CHECK(heir.shared == hub.shared);
  CHECK(heir.shared != moved(pool, 1).shared);
}

TEST_CASE("hub copy: what peers vote on has the steps besides", "[comm][fast]") {
  thread_pool pool{1};
  auto copy = moved(pool, 0);
  membership::image_collector all;
  all(copy);
  CHECK(all.parts().size() == copy.state().size() + 1);
  CHECK(all.parts().front().data() == std::as_writable_bytes(std::span{copy.shared}).data());
}
