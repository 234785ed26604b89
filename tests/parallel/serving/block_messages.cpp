// SPDX-License-Identifier: Apache-2.0
#include <causeway/parallel/serving/block_messages.hpp>

#include <causeway/core/rng.hpp>

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "support/catch.hpp"
#include "support/spoilt_messages.hpp"

namespace causeway::parallel::block_wire {
namespace {

constexpr std::uint64_t run = 99;

announcement usual() { return {5000, {{2, 5}, 0.001, 0.5, 4, 1024}, 300.0}; }

std::vector<message> one_of_each() {
  return {usual(), addresses{{"a:1", "b:2"}}, request{7, 1, {2, 5}, 3, 40, 8, 5000, {4, 0b101}}, probe{77}, echo{78}};
}
bool comes_back(const message& m) { return decode(run, encode(run, m)).has_value(); }

}  // namespace

TEST_CASE("block messages: each comes back from its bytes; cut or of another run it does not", "[parallel][fast]") {
  for (const message& m : one_of_each()) {
    const auto bytes = encode(run, m);
    const auto back = decode(run, bytes);
    REQUIRE(back);
    CHECK(back->index() == m.index());
    CHECK(encode(run, *back) == bytes);
    for (std::size_t n = 0; n < bytes.size(); ++n) CHECK_FALSE(decode(run, std::span{bytes}.first(n)));
    CHECK_FALSE(decode(run + 1, bytes));
  }
}

TEST_CASE("block messages: sizes and times that cannot be are refused", "[parallel][fast]") {
  const auto announced = [](auto change) {
    announcement a = usual();
    change(a);
    return comes_back(a);
  };
  CHECK(announced([](auto&) {}));
  CHECK_FALSE(announced([](auto& a) { a.offer.blocks = {5, 5}; }));
  CHECK_FALSE(announced([](auto& a) { a.offer.blocks = {5, 4}; }));
  CHECK_FALSE(announced([](auto& a) { a.offer.blocks = {0, most_layers + 1}; }));
  CHECK_FALSE(announced([](auto& a) { a.offer.seconds = -1; }));
  CHECK_FALSE(announced([](auto& a) { a.offer.seconds = std::numeric_limits<double>::infinity(); }));
  CHECK_FALSE(announced([](auto& a) { a.offer.load = 1e9; }));
  CHECK_FALSE(announced([](auto& a) { a.throughput = -1; }));
  CHECK_FALSE(announced([](auto& a) { a.offer.most_requests = 0; }));
  CHECK_FALSE(announced([](auto& a) { a.offer.most_rows = 0; }));
  const auto requested = [](auto change) {
    request r{7, 1, {2, 5}, 3, 40, 8, 5000};
    change(r);
    return comes_back(r);
  };
  CHECK(requested([](auto&) {}));
  CHECK_FALSE(requested([](auto& r) { r.backward = 2; }));
  CHECK_FALSE(requested([](auto& r) { r.blocks = {3, 3}; }));
  CHECK_FALSE(requested([](auto& r) { r.sequences = 0; }));
  CHECK_FALSE(requested([](auto& r) { r.tokens = 0; }));
  CHECK_FALSE(requested([](auto& r) { r.tokens = most_tokens; }));
  CHECK_FALSE(requested([](auto& r) { r.prompts = 41; }));
  CHECK(requested([](auto& r) { r.adapters.rank = nn::adapter_shape::most_rank; }));
  CHECK_FALSE(requested([](auto& r) { r.adapters.rank = nn::adapter_shape::most_rank + 1; }));
  CHECK_FALSE(comes_back(addresses{std::vector<std::string>(most_addresses + 1, "a")}));
  CHECK_FALSE(comes_back(addresses{{std::string(longest_address + 1, 'a')}}));
}

TEST_CASE("block messages: no bytes make the decoder read or write elsewhere", "[parallel][fast]") {
  support::check_spoilt(
      one_of_each(), [](const message& m) { return encode(run, m); }, [](const auto& bytes) { return decode(run, bytes); });
}

}  // namespace causeway::parallel::block_wire
