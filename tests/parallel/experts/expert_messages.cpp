// SPDX-License-Identifier: Apache-2.0
#include <causeway/parallel/experts/expert_messages.hpp>

#include <limits>

#include "support/catch.hpp"

using namespace causeway;
namespace wire = parallel::expert_wire;

namespace {

std::vector<wire::message> examples() {
  return {wire::announcement{5000, {1, 77, 1ULL << 40U}},
          wire::announcement{},
          wire::request{7, 0, 3, {1.5F, -2.0F}},
          wire::request{8, 1, 4, {1, 2, 3, 4}},
          wire::answer{9, {0.25F, 1e30F}},
          wire::answer{10, {}}};
}

std::string code(const auto& outcome) { return outcome ? "ok" : std::string{to_string(outcome.error().code)}; }

}  // namespace

TEST_CASE("expert_messages: what is said is what is heard", "[parallel][fast]") {
  for (const auto& m : examples()) {
    const auto bytes = wire::encode(5, m);
    const auto heard = wire::decode(5, bytes);
    REQUIRE(heard);
    CHECK(heard->index() == m.index());
    CHECK(wire::encode(5, *heard) == bytes);
  }
  const auto r = std::get<wire::request>(*wire::decode(5, wire::encode(5, examples()[3])));
  CHECK((r.number == 8 && r.backward == 1 && r.expert == 4 && r.values == std::vector<float>{1, 2, 3, 4}));
}

TEST_CASE("expert_messages: every cut, what follows the end, other runs and formats are refused", "[parallel][fast]") {
  for (const auto& m : examples()) {
    const auto bytes = wire::encode(5, m);
    for (std::size_t n = 0; n < bytes.size(); ++n) CHECK_FALSE(wire::decode(5, std::span{bytes}.first(n)));
    auto longer = bytes;
    longer.push_back(std::byte{0});
    CHECK(code(wire::decode(5, longer)) == "corrupt");
    CHECK(code(wire::decode(6, bytes)) == "wrong_run");
    auto other = bytes;
    other[0] = std::byte{9};
    CHECK(code(wire::decode(5, other)) == "version_mismatch");
    other = bytes;
    other[9] = std::byte{3};
    CHECK_FALSE(wire::decode(5, other));
  }
}

TEST_CASE("expert_messages: values that are not finite, and counts that nothing backs, are refused", "[parallel][fast]") {
  CHECK_FALSE(wire::decode(5, wire::encode(5, wire::answer{1, {1, std::numeric_limits<float>::quiet_NaN()}})));
  CHECK_FALSE(wire::decode(5, wire::encode(5, wire::request{1, 0, 1, {std::numeric_limits<float>::infinity()}})));
  CHECK_FALSE(wire::decode(5, wire::encode(5, wire::request{1, 2, 1, {1}})));
  auto bytes = wire::encode(5, wire::answer{1, {1, 2}});
  for (std::size_t i = 18; i < 22; ++i) bytes[i] = std::byte{0xFF};  // the count
  CHECK_FALSE(wire::decode(5, bytes));
}

TEST_CASE("expert_messages: the longest values fit a message", "[parallel][fast]") {
  const auto bytes = wire::encode(5, wire::request{1, 1, 2, std::vector<float>(wire::most_values, 1.0F)});
  CHECK(bytes.size() <= net::max_post_bytes);
}
