// SPDX-License-Identifier: Apache-2.0
#include <causeway/io/section_file.hpp>

#include "support/catch.hpp"

#include <string>
#include <vector>

namespace cw = causeway;
namespace io = causeway::io;

namespace {

struct recorder {
  std::vector<const std::byte*> starts;
  io::byte_vector all;

  io::byte_sink sink() {
    return [this](std::span<const std::byte> piece) -> cw::result<void> {
      starts.push_back(piece.data());
      all.insert(all.end(), piece.begin(), piece.end());
      return {};
    };
  }
};

}  // namespace

TEST_CASE("section: the bytes of a file are those of the documented layout", "[io][fast]") {
  const std::vector<std::uint16_t> values{0x1122, 0x3344};
  const std::vector<io::section> sections{io::section::of<std::uint16_t>("ab", 7, values)};
  recorder r;
  REQUIRE(io::write_sections(r.sink(), {.run_id = 5, .step = 9}, sections));
  REQUIRE(r.all.size() == 128 + 4);  // header of 48 + 32 + 2 + 8 bytes, padded to 128, then the section

  const auto number = [&](std::size_t at, std::size_t width) {
    std::uint64_t v = 0;
    for (std::size_t i = 0; i < width; ++i) v |= std::to_integer<std::uint64_t>(r.all[at + i]) << (8 * i);
    return v;
  };
  CHECK(std::string(reinterpret_cast<const char*>(r.all.data()), 8) == "CWSECT0\n");
  CHECK(number(8, 4) == 1);
  CHECK(number(12, 4) == CAUSEWAY_VERSION);
  CHECK(number(16, 8) == 5);
  CHECK(number(24, 8) == 9);
  CHECK(number(32, 8) == r.all.size());
  CHECK(number(40, 4) == 90);
  CHECK(number(44, 4) == 1);
  CHECK(number(48, 8) == 128);
  CHECK(number(56, 8) == 4);
  CHECK(number(64, 8) == cw::hash_bytes(std::as_bytes(std::span{values})));
  CHECK(number(72, 4) == 7);
  CHECK(number(76, 4) == 2);
  CHECK(number(80, 2) == ('a' | 'b' << 8));
  CHECK(number(82, 8) == cw::hash_bytes(std::span{r.all}.first(82)));
  CHECK(number(128, 4) == 0x33441122);
}

TEST_CASE("section: large content is passed on, not copied", "[io][fast]") {
  const std::vector<float> values(100'000, 1.0F);
  const std::vector<io::section> sections{io::section::of<float>("model", 1, values)};
  recorder r;
  REQUIRE(io::write_sections(r.sink(), {}, sections));
  CHECK(r.starts.back() == reinterpret_cast<const std::byte*>(values.data()));
}

TEST_CASE("section: an owned section keeps its bytes when copied and moved", "[io][fast]") {
  std::vector<io::section> sections;
  for (int i = 0; i < 20; ++i) {
    sections.emplace_back("s" + std::to_string(i), 1U, io::byte_vector(5, static_cast<std::byte>(i)));
  }
  const std::vector<io::section> copies = sections;
  sections.clear();
  for (std::size_t i = 0; i < copies.size(); ++i) {
    CHECK(copies[i].bytes().size() == 5);
    CHECK(copies[i].bytes()[4] == static_cast<std::byte>(i));
  }
}

TEST_CASE("section: two sections of one name, or an endless name, are refused", "[io][fast]") {
  recorder r;
  const std::vector<io::section> twice{
      {"a", 1, io::byte_vector{}}, {"b", 1, io::byte_vector{}}, {"a", 2, io::byte_vector{}}};
  const auto refused = io::write_sections(r.sink(), {}, twice);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == cw::errc::invalid_argument);
  CHECK(refused.error().where == "a");
  CHECK(r.all.empty());
  const std::vector<io::section> endless{{std::string(5000, 'n'), 1, io::byte_vector{}}};
  CHECK(io::write_sections(r.sink(), {}, endless).error().code == cw::errc::invalid_argument);
}
