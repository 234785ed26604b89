// SPDX-License-Identifier: Apache-2.0
#include <causeway/net/asio_greeting.hpp>

#include "support/catch.hpp"

#include <cstddef>
#include <random>
#include <vector>

using namespace causeway;
using namespace causeway::net;
using net::detail::address_table;
using net::detail::hello;

TEST_CASE("greeting: hello and table survive encoding and decoding", "[net][fast]") {
  const hello said{.model_hash = 5, .wanted = 3, .announce = "trainer.example.org", .port = 5100, .has_bbr = 1};
  const auto heard = hello::decode(said.encode());
  REQUIRE(heard);
  CHECK(heard->encode() == said.encode());
  CHECK(heard->announce == said.announce);
  const address_table table{7, 16, {{"", 1}, {"10.0.0.2", 2}}};
  const auto read = address_table::decode(table.encode());
  REQUIRE(read);
  CHECK(read->addresses == table.addresses);
  CHECK(read->streams == 16);
}

TEST_CASE("greeting: truncated and overlong ones are refused", "[net][fast]") {
  const auto said = hello{}.encode();
  const auto table = address_table{7, 16, {{"a", 1}, {"b", 2}}}.encode();
  for (std::size_t keep = 0; keep < said.size(); ++keep) CHECK_FALSE(hello::decode(std::span{said}.first(keep)));
  for (std::size_t keep = 0; keep < table.size(); ++keep) {
    CHECK_FALSE(address_table::decode(std::span{table}.first(keep)));
  }
  auto longer = said;
  longer.push_back(std::byte{0});
  CHECK_FALSE(hello::decode(longer));
}

TEST_CASE("greeting: a table that claims millions of peers allocates nothing for them", "[net][fast]") {
  byte_writer out;
  out.put(std::uint64_t{1}).put(std::uint32_t{1}).put(std::uint32_t{4'000'000'000U});
  CHECK(address_table::decode(out.bytes()).error().code == errc::too_large);
}

TEST_CASE("greeting: 100 000 random bodies are refused or read, never more", "[net][fast]") {
  std::mt19937_64 random{21};
  int read = 0;
  for (int round = 0; round < 100'000; ++round) {
    std::vector<std::byte> bytes(random() % 48);
    for (std::byte& b : bytes) b = static_cast<std::byte>(random() % 3 == 0 ? random() % 8 : 0);
    if (const auto table = address_table::decode(bytes)) {
      REQUIRE(table->addresses.size() * 6 + 16 <= bytes.size());
      ++read;
    }
    if (hello::decode(bytes)) ++read;
  }
  CHECK(read > 10);
}
