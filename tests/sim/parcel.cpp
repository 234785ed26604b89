// SPDX-License-Identifier: Apache-2.0
#include <causeway/sim/parcel.hpp>

#include <vector>

#include "support/catch.hpp"

using namespace causeway::sim::detail;

TEST_CASE("parcel: a used one comes back empty, with its room", "[sim][fast]") {
  parcel_stock stock;
  {
    const parcel_ptr p = stock.make(content::data, lane::data);
    p->bytes.resize(1000);
    p->sent = 5;
    p->aborted = true;
    p->operation = 7;
    p->id.step = 9;
  }
  CHECK(stock.held_bytes() >= 1000);
  const parcel_ptr again = stock.make(content::hello, lane::control);
  CHECK(stock.held_bytes() == 0);
  CHECK(again->bytes.empty());
  CHECK(again->bytes.capacity() >= 1000);
  CHECK(again->what == content::hello);
  CHECK(again->way == lane::control);
  CHECK(again->sent == 0);
  CHECK_FALSE(again->aborted);
  CHECK(again->operation == parcel{}.operation);
  CHECK(again->id == parcel{}.id);
}

TEST_CASE("parcel: the stock is limited", "[sim][fast]") {
  parcel_stock stock;
  std::vector<parcel_ptr> many;
  for (int i = 0; i < 100; ++i) {
    many.push_back(stock.make(content::data, lane::data));
    many.back()->bytes.resize(1 << 20);
  }
  many.clear();
  CHECK(stock.held_bytes() > 0);
  CHECK(stock.held_bytes() <= std::size_t{16} << 20U);
}

TEST_CASE("parcel: one without a stock is freed", "[sim][fast]") {
  const parcel_ptr p{new parcel};
  p->bytes.resize(10);
  CHECK(p.get_deleter().stock == nullptr);
}
