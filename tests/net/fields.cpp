// SPDX-License-Identifier: Apache-2.0
#include <causeway/net/fields.hpp>

#include "support/catch.hpp"

#include <limits>
#include <string>
#include <vector>

using namespace causeway;

namespace {

enum class colour : std::uint8_t { red, green };

struct point {
  std::uint16_t x = 0;
  float height = 0;

  void fields(auto& wire) { wire(x, height); }
  friend bool operator==(const point&, const point&) = default;
};

struct everything {
  bool flag = false;
  colour paint = colour::red;
  std::uint64_t number = 0;
  double real = 0;
  std::string name;
  std::vector<point> points;
  std::vector<std::string> words;

  void fields(auto& wire) {
    wire(flag, net::below{paint, 2}, number, real, net::text{name, 8}, net::list{points, 3},
         net::list{words, 2, [](auto& w, std::string& s) {
                     w(net::text{s, 4});
                   }});
    wire.must(number != 13);
  }
  friend bool operator==(const everything&, const everything&) = default;
};

everything some() { return {true, colour::green, 0x0102030405060708U, -1.5, "name", {{1, 2.0F}, {3, 4.0F}}, {"a", "b"}}; }

result<everything> back(const std::vector<std::byte>& bytes) { return net::decode_fields<everything>(bytes, "a test"); }
result<everything> back(const everything& m) { return back(net::encode_fields(m)); }

}  // namespace

TEST_CASE("fields: a message is read back as it was written, each field low byte first", "[net][fast]") {
  const auto bytes = net::encode_fields(some());
  CHECK(bytes.size() == 1 + 1 + 8 + 8 + (4 + 4) + (4 + 2 * 6) + (4 + 2 * 5));
  CHECK((bytes[0] == std::byte{1} && bytes[1] == std::byte{1}));
  CHECK((bytes[2] == std::byte{8} && bytes[9] == std::byte{1}));
  const auto read = back(bytes);
  REQUIRE(read);
  CHECK(*read == some());
}

TEST_CASE("fields: what is beyond its limit is refused", "[net][fast]") {
  const auto refused = [](auto change) {
    everything m = some();
    change(m);
    const auto read = back(m);
    REQUIRE_FALSE(read);
    CHECK(read.error().code == errc::too_large);
  };
  refused([](everything& m) { m.paint = colour{2}; });
  refused([](everything& m) { m.number = 13; });
  refused([](everything& m) { m.real = std::numeric_limits<double>::infinity(); });
  refused([](everything& m) { m.points[1].height = std::numeric_limits<float>::quiet_NaN(); });
  refused([](everything& m) { m.name = "nine long"; });
  refused([](everything& m) { m.points.resize(4); });
  refused([](everything& m) { m.words[1] = "5 long"; });
  auto bytes = net::encode_fields(some());
  bytes[0] = std::byte{2};
  CHECK(back(bytes).error().code == errc::too_large);
}

TEST_CASE("fields: no prefix is a message, nothing may follow one, and a count without elements takes no memory",
          "[net][fast]") {
  auto bytes = net::encode_fields(some());
  for (std::size_t n = 0; n < bytes.size(); ++n) {
    CHECK_FALSE(back(std::vector<std::byte>(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(n))));
  }
  bytes.push_back(std::byte{0});
  CHECK(back(bytes).error().code == errc::corrupt);

  net::byte_writer out;
  out.put(std::uint32_t{1} << 30U).put(std::uint64_t{0});
  std::vector<point> points;
  net::byte_reader in{out.bytes()};
  net::list{points, std::size_t{1} << 31U}.get(in);
  CHECK_FALSE(in.ok());
  CHECK(points.capacity() == 0);
}
