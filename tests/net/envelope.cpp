// SPDX-License-Identifier: Apache-2.0
#include <causeway/net/envelope.hpp>

#include "support/catch.hpp"

#include <cmath>
#include <cstdint>
#include <limits>
#include <variant>
#include <vector>

namespace causeway::net::envelope {
namespace {

struct small {
  std::uint8_t flag = 0;

  void fields(auto& wire) { wire(below{flag, 2}); }
};
struct big {
  double real = 0;
  std::uint32_t below_ten = 0;

  void fields(auto& wire) { wire(real, below{below_ten, 10}); }
};
/// Sent as its difference to what both sides know.
struct changed {
  std::uint32_t value = 0;

  void fields(auto& wire, const std::uint32_t& known) {
    std::uint32_t difference = value - known;
    wire(difference);
    value = known + difference;
  }
};
using message = std::variant<small, big, changed>;
constexpr kind usual{"test message", ", or of another colour", 3};
constexpr std::uint32_t known = 100;

std::vector<std::byte> bytes_of(const message& m, const kind& k = usual) { return seal(k, 7, m, known); }
result<message> back(std::span<const std::byte> bytes, std::uint64_t run = 7) {
  return open<message>(usual, run, bytes, known);
}

}  // namespace

TEST_CASE("envelope: what is sealed is opened as the same kind", "[net][fast]") {
  const auto one = back(bytes_of(small{1}));
  REQUIRE(one);
  CHECK(std::get<small>(*one).flag == 1);
  const auto other = back(bytes_of(big{-2.5, 9}));
  REQUIRE(other);
  CHECK((std::get<big>(*other).real == -2.5 && std::get<big>(*other).below_ten == 9));
}

TEST_CASE("envelope: what both sides know reaches the kinds that ask for it", "[net][fast]") {
  const auto bytes = bytes_of(changed{107});
  CHECK(bytes[10] == std::byte{7});
  const auto one = back(bytes);
  REQUIRE(one);
  CHECK(std::get<changed>(*one).value == 107);
}

TEST_CASE("envelope: other formats, runs and kinds, cut and longer bytes are refused, and it says why", "[net][fast]") {
  const auto format = back(bytes_of(small{1}, {"test message", ", or of another colour", 4}));
  REQUIRE_FALSE(format);
  CHECK(format.error().code == errc::version_mismatch);
  const auto run = back(bytes_of(small{1}), 8);
  REQUIRE_FALSE(run);
  CHECK(run.error().code == errc::wrong_run);
  CHECK_THAT(run.error().text(), Catch::Matchers::Contains("colour"));
  auto bytes = bytes_of(big{1, 2});
  for (std::size_t n = 0; n < bytes.size(); ++n) CHECK_FALSE(back(std::span{bytes}.first(n)));
  bytes[9] = std::byte{3};
  CHECK_FALSE(back(bytes));
  bytes[9] = std::byte{1};
  CHECK(back(bytes));
  bytes.push_back(std::byte{0});
  const auto longer = back(bytes);
  REQUIRE_FALSE(longer);
  CHECK(longer.error().code == errc::corrupt);
}

TEST_CASE("envelope: flags beyond one, numbers at their limit and reals that are none are refused", "[net][fast]") {
  CHECK_FALSE(back(bytes_of(small{2})));
  CHECK_FALSE(back(bytes_of(big{0, 10})));
  CHECK_FALSE(back(bytes_of(big{std::numeric_limits<double>::quiet_NaN(), 0})));
  CHECK_FALSE(back(bytes_of(big{std::numeric_limits<double>::infinity(), 0})));
}

}  // namespace causeway::net::envelope
