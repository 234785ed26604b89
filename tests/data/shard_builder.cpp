// SPDX-License-Identifier: Apache-2.0
#include <causeway/data/token_shard.hpp>

#include "support/catch.hpp"
#include "support/temporary_folder.hpp"

#include <filesystem>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

namespace cw = causeway;
namespace data = causeway::data;

namespace {

std::ptrdiff_t files_in(const std::string& folder) {
  return std::distance(std::filesystem::directory_iterator{folder}, std::filesystem::directory_iterator{});
}

}  // namespace

TEST_CASE("shard builder: what is added bit by bit is the shard, and nothing else stays", "[data][fast]") {
  const cw::test::temporary_folder folder;
  for (const auto width : {data::token_width::two, data::token_width::four}) {
    std::vector<std::int32_t> expected;
    auto builder = data::shard_builder::make(folder / "s.bin", width).value();
    // The first tokens look like the header of a shard, which must not be taken for one.
    std::vector<std::int32_t> part{20240520 & 0xFFFF, 20240520 >> 16, 1, 0};
    for (int i = 0; i < 50; ++i) {
      REQUIRE(builder.add(part));
      expected.insert(expected.end(), part.begin(), part.end());
      part.assign(static_cast<std::size_t>(i * 7), i);
    }
    CHECK(builder.size() == std::ssize(expected));
    auto moved = std::move(builder);
    REQUIRE(moved.finish());
    const auto stream = data::open_token_shard(folder / "s.bin").value();
    std::vector<std::int32_t> back(static_cast<std::size_t>(stream.size()));
    stream.read(0, back);
    CHECK(back == expected);
    CHECK(files_in(folder.path()) == 1);
  }
}

TEST_CASE("shard builder: without an end nothing is left", "[data][fast]") {
  const cw::test::temporary_folder folder;
  {
    auto builder = data::shard_builder::make(folder / "s.bin", data::token_width::two).value();
    REQUIRE(builder.add(std::vector<std::int32_t>{1, 2, 3}));
    CHECK(files_in(folder.path()) == 1);
    CHECK(builder.add(std::vector<std::int32_t>{65536}).error().code == cw::errc::invalid_argument);
  }
  CHECK(files_in(folder.path()) == 0);
  CHECK(data::shard_builder::make(folder / "nowhere/s.bin", data::token_width::two).error().code == cw::errc::not_found);
}

TEST_CASE("shard builder: no tokens are an empty shard", "[data][fast]") {
  const cw::test::temporary_folder folder;
  auto builder = data::shard_builder::make(folder / "s.bin", data::token_width::two).value();
  REQUIRE(builder.finish());
  CHECK(data::open_token_shard(folder / "s.bin").value().size() == 0);
}
