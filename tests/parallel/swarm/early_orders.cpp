// SPDX-License-Identifier: Apache-2.0
#include <causeway/parallel/swarm/early_orders.hpp>

#include <cstdint>

#include "support/catch.hpp"

namespace causeway::parallel {

namespace {
swarm_wire::order order_of(std::uint64_t turn, std::uint32_t micro_batch, std::uint32_t term, std::uint32_t number) {
  swarm_wire::order o;
  o.turn = turn;
  o.micro_batch = micro_batch;
  o.version = std::uint64_t{term} << 32U | number;
  return o;
}
}  // namespace

TEST_CASE("early orders: the newest of each micro-batch is given when its turn begins", "[parallel][fast]") {
  early_orders orders{4};
  orders.keep(7, order_of(3, 1, 1, 2));
  orders.keep(8, order_of(3, 1, 1, 1));  // older
  orders.keep(8, order_of(3, 0, 1, 1));
  orders.keep(9, order_of(3, 0, 1, 5));
  orders.keep(7, order_of(2, 0, 1, 1));
  orders.keep(7, order_of(4, 0, 1, 1));
  const auto all = orders.take(3);
  REQUIRE(all.size() == 2);
  CHECK(all[0].first == 9);
  CHECK(all[0].second.micro_batch == 0);
  CHECK(all[1].first == 7);
  CHECK(all[1].second.micro_batch == 1);
  CHECK(orders.take(2).empty());  // its turn is over
  CHECK(orders.take(4).size() == 1);
  CHECK(orders.empty());
}

TEST_CASE("early orders: those of an earlier coordinator count no more", "[parallel][fast]") {
  early_orders orders{4};
  orders.keep(1, order_of(3, 0, 1, 9));
  orders.keep(2, order_of(3, 1, 2, 1));
  orders.drop_before(2);
  const auto all = orders.take(3);
  REQUIRE(all.size() == 1);
  CHECK(all[0].first == 2);
}

TEST_CASE("early orders: memory is bounded, whatever is sent", "[parallel][fast]") {
  early_orders orders{2};
  orders.keep(1, order_of(1, 2, 1, 1));  // there is no such micro-batch
  CHECK(orders.empty());
  for (std::uint64_t turn = 1; turn < 100; ++turn) orders.keep(1, order_of(turn, 0, 1, 1));
  std::size_t kept = 0;
  for (std::uint64_t turn = 1; turn < 100; ++turn) kept += orders.take(turn).size();
  CHECK(kept == 8);
}

}  // namespace causeway::parallel
