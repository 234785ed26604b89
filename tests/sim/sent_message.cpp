// SPDX-License-Identifier: Apache-2.0
#include <causeway/sim/connection.hpp>

#include <vector>

#include "support/catch.hpp"

using namespace causeway::sim::detail;

TEST_CASE("sent message: a used one comes back empty, with its room", "[sim][fast]") {
  message_pool pool;
  {
    const sent_message_ptr p = pool.make(content::data, lane::data);
    p->bytes.resize(1000);
    p->sent = 5;
    p->aborted = true;
    p->operation = 7;
    p->id.step = 9;
  }
  CHECK(pool.held_bytes() >= 1000);
  const sent_message_ptr again = pool.make(content::hello, lane::control);
  CHECK(pool.held_bytes() == 0);
  CHECK(again->bytes.empty());
  CHECK(again->bytes.capacity() >= 1000);
  CHECK(again->what == content::hello);
  CHECK(again->way == lane::control);
  CHECK(again->sent == 0);
  CHECK_FALSE(again->aborted);
  CHECK(again->operation == sent_message{}.operation);
  CHECK(again->id == sent_message{}.id);
}

TEST_CASE("sent message: the pool is limited", "[sim][fast]") {
  message_pool pool;
  std::vector<sent_message_ptr> many;
  for (int i = 0; i < 100; ++i) {
    many.push_back(pool.make(content::data, lane::data));
    many.back()->bytes.resize(1 << 20);
  }
  many.clear();
  CHECK(pool.held_bytes() > 0);
  CHECK(pool.held_bytes() <= std::size_t{16} << 20U);
}

TEST_CASE("sent message: one without a pool is freed", "[sim][fast]") {
  const sent_message_ptr p{new sent_message};
  p->bytes.resize(10);
  CHECK(p.get_deleter().pool == nullptr);
}
