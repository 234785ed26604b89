// SPDX-License-Identifier: Apache-2.0
#include <causeway/data/token_shard.hpp>

#include <causeway/io/file.hpp>
#include <causeway/io/memory_storage.hpp>

#include "support/catch.hpp"
#include "support/temporary_folder.hpp"

#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

namespace cw = causeway;
namespace data = causeway::data;

namespace {

std::vector<std::int32_t> sequence(std::size_t count, std::int32_t factor) {
  std::vector<std::int32_t> v(count);
  for (std::size_t i = 0; i < count; ++i) v[i] = static_cast<std::int32_t>(i) * factor % 50'000;
  return v;
}

std::vector<std::int32_t> all_of(const data::token_stream& s) {
  std::vector<std::int32_t> v(static_cast<std::size_t>(s.size()));
  s.read(0, v);
  return v;
}

// A shard as a few numbers of its header and the number of bytes behind it.
std::string shard(std::int32_t magic, std::int32_t version, std::int32_t count, std::size_t bytes) {
  std::string file(1024 + bytes, '\1');
  std::memset(file.data(), 0, 1024);
  const std::int32_t head[3] = {magic, version, count};
  std::memcpy(file.data(), head, sizeof head);
  return file;
}

}  // namespace

TEST_CASE("token shard: written and read back, two and four bytes per token", "[data][fast]") {
  const cw::test::temporary_folder folder;
  cw::io::posix_storage storage;
  for (const auto width : {data::token_width::two, data::token_width::four}) {
    const auto tokens = sequence(200'000, 7);  // more than one part of the writer
    const std::string path = folder / "train.bin";
    REQUIRE(data::write_token_shard(storage, path, data::token_stream{tokens}, width));
    CHECK(std::filesystem::file_size(path) == 1024 + tokens.size() * static_cast<std::size_t>(width));
    const auto stream = data::open_token_shard(path);
    REQUIRE(stream);
    CHECK(all_of(*stream) == tokens);
    CHECK(stream->content_hash() == data::token_stream{tokens}.content_hash());
  }
}

TEST_CASE("token shard: the bytes are those of llm.c", "[data][fast]") {
  cw::io::memory_storage storage;
  const std::vector<std::int32_t> tokens{50256, 464, 3290};
  REQUIRE(data::write_token_shard(storage, "d/gpt2.bin", data::token_stream{tokens}, data::token_width::two));
  const auto bytes = storage.read("d/gpt2.bin").value();
  REQUIRE(bytes.size() == 1024 + 6);
  const auto number = [&](std::size_t at, std::size_t width) {
    std::uint32_t v = 0;
    for (std::size_t i = 0; i < width; ++i) v |= std::to_integer<std::uint32_t>(bytes[at + i]) << (8 * i);
    return v;
  };
  CHECK(number(0, 4) == 20240520);
  CHECK(number(4, 4) == 1);
  CHECK(number(8, 4) == 3);
  for (std::size_t at = 12; at < 1024; at += 4) CHECK(number(at, 4) == 0);
  CHECK(number(1024, 2) == 50256);
  CHECK(number(1028, 2) == 3290);
  REQUIRE(data::write_token_shard(storage, "d/llama3.bin", data::token_stream{tokens}, data::token_width::four));
  const auto wide = storage.read("d/llama3.bin").value();
  CHECK(wide.size() == 1024 + 12);
  std::int32_t head[2];
  std::memcpy(head, wide.data(), sizeof head);
  CHECK(head[0] == 20240801);
  CHECK(head[1] == 7);
}

TEST_CASE("token shard: a header that does not fit the file is refused", "[data][fast]") {
  const cw::test::temporary_folder folder;
  const auto code_of = [&](const std::string& content) {
    const auto stream = data::open_token_shard(folder.write("s.bin", content));
    return stream ? 0 : static_cast<int>(stream.error().code);
  };
  constexpr int corrupt = static_cast<int>(cw::errc::corrupt);
  CHECK(code_of(shard(20240520, 1, 10, 20)) == 0);
  CHECK(code_of(shard(20240801, 7, 10, 40)) == 0);
  CHECK(code_of(shard(20240520, 1, 0, 0)) == 0);
  CHECK(code_of("") == corrupt);
  CHECK(code_of(shard(20240520, 1, 0, 0).substr(0, 1023)) == corrupt);
  CHECK(code_of(shard(20240522, 1, 10, 20)) == corrupt);  // an evaluation file
  CHECK(code_of(shard(20240520, 1, 10, 19)) == corrupt);
  CHECK(code_of(shard(20240520, 1, 10, 21)) == corrupt);
  CHECK(code_of(shard(20240520, 1, 10, 22)) == corrupt);
  CHECK(code_of(shard(20240520, 1, 10, 40)) == corrupt);
  CHECK(code_of(shard(20240801, 7, 10, 20)) == corrupt);
  CHECK(code_of(shard(20240520, 1, -1, 20)) == corrupt);
  CHECK(code_of(shard(20240520, 2, 10, 20)) == static_cast<int>(cw::errc::version_mismatch));
  CHECK(code_of(shard(20240801, 1, 10, 20)) == static_cast<int>(cw::errc::version_mismatch));
  CHECK(data::open_token_shard(folder / "none.bin").error().code == cw::errc::not_found);
}

TEST_CASE("token shard: numbers of 2³¹ and more look negative and are caught by the vocabulary check", "[data][fast]") {
  const cw::test::temporary_folder folder;
  std::string file = shard(20240801, 7, 2, 8);
  std::memset(file.data() + 1028, 0xFF, 4);
  const auto stream = data::open_token_shard(folder.write("s.bin", file)).value();
  const auto outcome = stream.check_vocabulary(0x7FFFFFFF);
  REQUIRE_FALSE(outcome);
  CHECK(outcome.error().where == "token 1");
  CHECK(outcome.error().message.find("4294967295") != std::string::npos);
}

TEST_CASE("token shard: a token that does not fit is an error, and no file is left", "[data][fast]") {
  cw::io::memory_storage storage;
  const data::token_stream tokens{std::vector<std::int32_t>{1, 65536}};
  const auto outcome = data::write_token_shard(storage, "d/s.bin", tokens, data::token_width::two);
  REQUIRE_FALSE(outcome);
  CHECK(outcome.error().code == cw::errc::invalid_argument);
  CHECK(storage.read("d/s.bin").error().code == cw::errc::not_found);
}

TEST_CASE("token shard: tokens without a header are read where somebody says how wide they are", "[data][fast]") {
  const cw::test::temporary_folder folder;
  const std::string path = folder.write("train.bin", std::string{"\x01\x00\x02\x01\xFF\xFF\x00\x00", 8});
  CHECK(data::open_tokens(path, {}).error().code == cw::errc::unsupported);
  CHECK(data::open_tokens(path, {}).error().message.find("data.token_type u16 or u32") != std::string::npos);
  CHECK(all_of(data::open_tokens(path, data::token_width::two).value()) == std::vector<std::int32_t>{1, 258, 65535, 0});
  CHECK(all_of(data::open_tokens(path, data::token_width::four).value()) == std::vector<std::int32_t>{0x1020001, 65535});
  const std::string torn = folder.write("torn.bin", "abc");
  CHECK(data::open_tokens(torn, data::token_width::two).error().code == cw::errc::corrupt);
  CHECK(data::open_tokens(torn, data::token_width::two).error().where == torn);
  CHECK(data::open_tokens(folder.write("empty.bin", ""), data::token_width::two).value().size() == 0);
}

TEST_CASE("token shard: a file that begins as one of llm.c is no file without a header", "[data][fast]") {
  const cw::test::temporary_folder folder;
  const auto two = data::token_width::two;
  CHECK(data::open_tokens(folder.write("a.bin", shard(20240520, 1, 10, 20)), two).value().size() == 10);
  CHECK(data::open_tokens(folder.write("b.bin", shard(20240520, 1, 10, 18)), two).error().code == cw::errc::corrupt);
  CHECK(data::open_tokens(folder.write("c.bin", shard(20240522, 1, 10, 20)), two).error().code == cw::errc::corrupt);
  CHECK(data::open_tokens(folder.write("d.bin", shard(20240801, 7, 10, 40)), {}).value().size() == 10);
}

TEST_CASE("token shard: its bytes can be read anywhere without a file", "[data][fast]") {
  cw::io::memory_storage storage;
  for (const auto width : {data::token_width::two, data::token_width::four}) {
    const data::token_stream tokens{sequence(100, 501)};
    REQUIRE(data::write_token_shard(storage, "d/s.bin", tokens, width));
    const auto file = storage.read("d/s.bin").value();
    const auto image = data::shard_image::make(tokens, width).value();
    REQUIRE(image.size() == file.size());
    for (std::uint64_t offset = 1000; offset <= file.size() + 1; ++offset) {
      for (const std::size_t count : {0U, 1U, 3U, 30U, 5000U}) {
        const std::size_t first = std::min<std::size_t>(offset, file.size());
        const std::size_t last = std::min<std::size_t>(first + count, file.size());
        REQUIRE(image.read(offset, count) == cw::io::byte_vector(file.begin() + static_cast<std::ptrdiff_t>(first),
                                                                 file.begin() + static_cast<std::ptrdiff_t>(last)));
      }
    }
    CHECK(image.read(0, file.size()) == file);
  }
}
