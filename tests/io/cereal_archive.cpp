// SPDX-License-Identifier: Apache-2.0
#include <causeway/io/cereal_archive.hpp>

#include <causeway/io/archive.hpp>

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "support/catch.hpp"

namespace io = causeway::io;

namespace {

enum class kind : std::uint16_t { one = 1, two = 0x0203 };

struct inner {
  std::int32_t a = -4;
  std::vector<std::uint8_t> b{1, 2};
  template <class Archive>
  void serialize(Archive& ar) {
    ar(a, b);
  }
};

struct everything {
  bool flag = true;
  float f = 1.5F;
  kind k = kind::two;
  std::array<double, 2> numbers{1, 2};
  std::array<std::string, 2> words{"a", ""};
  std::vector<bool> flags{true, false};
  std::vector<inner> list{{}, {}};
  std::deque<std::uint16_t> queue{1, 2, 3};
  std::map<std::uint64_t, std::string> names{{1, "x"}, {2, "y"}};
  std::set<std::string> set{"p", "q"};
  std::optional<inner> none, some = inner{};
  std::pair<std::uint8_t, float> both{9, 0.25F};
  template <class Archive>
  void serialize(Archive& ar) {
    ar(flag, f, k, numbers, words, flags, list, queue, names, set, none, some, both);
  }
};

}  // namespace

TEST_CASE("cereal archive: has the bytes of io/archive.hpp, so that either reads the other's checkpoints", "[io][fast]") {
  const auto ours = io::archiver{}.to_bytes(everything{});
  const auto theirs = io::cereal_archiver{}.to_bytes(everything{});
  REQUIRE(ours);
  REQUIRE(theirs);
  CHECK(*ours == *theirs);
  everything back;
  back.names.clear(), back.some.reset(), back.queue.clear();
  REQUIRE(io::cereal_archiver{}.from_bytes(*ours, back));
  CHECK(io::archiver{}.to_bytes(back).value() == *ours);
}

TEST_CASE("cereal archive: bytes that are cut or left over are errors", "[io][fast]") {
  auto bytes = io::cereal_archiver{}.to_bytes(everything{}).value();
  everything back;
  for (std::size_t n = 0; n < bytes.size(); n += 3) {
    const auto cut = io::cereal_archiver{}.from_bytes(std::span{bytes}.first(n), back);
    REQUIRE_FALSE(cut);
    CHECK(cut.error().code == causeway::errc::corrupt);
  }
  bytes.resize(bytes.size() + 2);
  const auto more = io::cereal_archiver{}.from_bytes(bytes, back);
  REQUIRE_FALSE(more);
  CHECK(more.error().message.find("2 of ") != std::string::npos);
}
