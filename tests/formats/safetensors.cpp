// SPDX-License-Identifier: Apache-2.0
#include <causeway/formats/safetensors.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "formats/stored.hpp"
#include "support/catch.hpp"
#include "support/temporary_folder.hpp"

namespace causeway::formats {
namespace {

using Catch::Matchers::Contains;

std::string file_of(const std::string& header, std::size_t bytes) {
  std::string file(8, '\0');
  const std::uint64_t length = header.size();
  std::memcpy(file.data(), &length, sizeof length);
  return file + header + std::string(bytes, '\1');
}

auto read(const std::string& file) { return read_safetensors(std::as_bytes(std::span{file}), "x.safetensors"); }

error refusal_of(const std::string& file) {
  const auto done = read(file);
  REQUIRE_FALSE(done);
  CHECK(done.error().where == "x.safetensors");
  return done.error();
}

std::string one(const std::string& name, const std::string& shape, const std::string& offsets,
                const std::string& type = "F32") {
  return '"' + name + R"(":{"dtype":")" + type + R"(","shape":)" + shape + R"(,"data_offsets":)" + offsets + "}";
}

error entry_refused(const std::string& shape, const std::string& offsets, std::size_t bytes,
                    const std::string& type = "F32") {
  return refusal_of(file_of("{" + one("t", shape, offsets, type) + "}", bytes));
}

io::byte_producer copy_of(std::span<const std::byte> bytes) { return io::produce(bytes); }

}  // namespace

TEST_CASE("safetensors: a file of the reference is read, and written again byte for byte", "[formats][fast]") {
  const std::string path = GENERATE(as<std::string>{}, "types.safetensors", "gpt2/model.safetensors",
                                    "llama/model.safetensors", "llama_sharded/model-00002-of-00003.safetensors");
  CAPTURE(path);
  const auto file = safetensors_file::open(testing::stored(path));
  REQUIRE(file);
  std::vector<tensor_source> tensors;
  for (auto it = file->tensors().rbegin(); it != file->tensors().rend(); ++it) {  // whatever order they are given in
    tensors.push_back({it->name, it->type, it->shape, copy_of(file->bytes(*it))});
  }
  const test::temporary_folder folder;
  io::posix_storage storage;
  REQUIRE(storage.write_atomic(folder / "copy", safetensors(std::move(tensors), file->metadata())));
  CHECK(testing::file_bytes(folder / "copy") == testing::file_bytes(file->path()));
}

TEST_CASE("safetensors: all types of numbers read the same values", "[formats][fast]") {
  const auto file = safetensors_file::open(testing::stored("types.safetensors"));
  REQUIRE(file);
  CHECK(file->metadata().at("format") == "pt");
  const auto values = [&](const std::string& name) { return testing::floats_of(*file, name); };
  const auto single = values("single");
  REQUIRE(single.size() == 15);
  CHECK(values("double") == single);
  for (std::size_t i = 0; i < single.size(); ++i) {
    CHECK(values("half")[i] == Approx(single[i]).epsilon(1e-3));
    CHECK(values("brain")[i] == Approx(single[i]).epsilon(8e-3));
  }
  CHECK(values("number") == std::vector<float>{2.5F});
  CHECK(values("empty").empty());
  CHECK(values("\xC3\xA9 \"quoted\"\n") == std::vector<float>{1.0F});
}

TEST_CASE("safetensors: integers are read as bytes, not as numbers", "[formats][fast]") {
  std::vector<float> out(3);
  const std::vector<std::byte> bytes(24);
  const auto done = to_floats(element::i64, bytes, 0, out);
  REQUIRE_FALSE(done);
  CHECK(done.error().code == errc::unsupported);
}

TEST_CASE("safetensors: values are rounded to nearest even when they are narrowed", "[formats][fast]") {
  const std::vector<float> values{1.0F, 1.00390625F, 1.01171875F, -0.0F, 65504.0F};
  for (const element type : {element::f32, element::f16, element::bf16}) {
    const auto bytes = from_floats(type, values);
    REQUIRE(bytes);
    std::vector<float> back(values.size());
    REQUIRE(to_floats(type, *bytes, 0, back));
    if (type != element::bf16) CHECK(back == values);
    if (type == element::bf16) CHECK(back == std::vector<float>{1.0F, 1.0F, 1.015625F, -0.0F, 65536.0F});
  }
  CHECK_FALSE(from_floats(element::i8, values));
}

TEST_CASE("safetensors: a file that was cut anywhere is refused", "[formats][fast]") {
  const std::string whole = testing::file_bytes(testing::stored("types.safetensors"));
  REQUIRE(read(whole));
  for (std::size_t length = 0; length < whole.size(); ++length) {
    CAPTURE(length);
    CHECK(refusal_of(whole.substr(0, length)).code == errc::corrupt);
  }
  CHECK_THAT(refusal_of(whole + "x").message, Contains("last tensor ends at"));
}

TEST_CASE("safetensors: headers that no writer writes are refused with what is wrong", "[formats][fast]") {
  CHECK(refusal_of(std::string(8, '\xFF')).code == errc::too_large);
  CHECK(refusal_of(file_of("", 0)).code == errc::corrupt);
  CHECK_THAT(refusal_of(file_of(" {}", 0)).message, Contains("does not begin with {"));
  CHECK(refusal_of(file_of("{\"a\":", 0)).code == errc::corrupt);
  CHECK_THAT(refusal_of(file_of("{\"a\":" + std::string(100'000, '['), 0)).message, Contains("deeper"));
  CHECK_THAT(refusal_of(file_of("{\"a\":[[[]]]}", 0)).message, Contains("deeper"));
  CHECK_THAT(refusal_of(file_of("{" + one("t", "[1]", "[0,4]") + "," + one("t", "[1]", "[0,4]") + "}", 4)).message,
             Contains("'t' twice"));
  CHECK_THAT(refusal_of(file_of(R"({"__metadata__":{"a":1}})", 0)).message, Contains("no text"));
  CHECK_THAT(refusal_of(file_of(R"({"__metadata__":"a"})", 0)).message, Contains("not an object"));
  CHECK_THAT(refusal_of(file_of(R"({"t":{"dtype":"F32","shape":[0]}})", 0)).message, Contains("not just"));
  CHECK_THAT(refusal_of(file_of(R"({"t":7})", 0)).message, Contains("not just"));
}

TEST_CASE("safetensors: tensors that do not fill the file are refused", "[formats][fast]") {
  CHECK_THAT(entry_refused("[2]", "[0,8]", 7).message, Contains("behind the end"));
  CHECK_THAT(entry_refused("[2]", "[0,8]", 9).message, Contains("last tensor ends"));
  CHECK_THAT(entry_refused("[2]", "[4,12]", 12).message, Contains("hole"));
  CHECK_THAT(entry_refused("[2]", "[0,4]", 4).message, Contains("do not come to"));
  CHECK_THAT(entry_refused("[2]", "[8,0]", 8).message, Contains("beginning and end"));
  CHECK_THAT(entry_refused("[2]", "[0]", 8).message, Contains("beginning and end"));
  CHECK_THAT(entry_refused("[-2]", "[0,8]", 8).message, Contains("whole number"));
  CHECK_THAT(entry_refused("[2.0]", "[0,8]", 8).message, Contains("whole number"));
  CHECK_THAT(entry_refused("2", "[0,8]", 8).message, Contains("no list"));
  CHECK_THAT(entry_refused("[18446744073709551615]", "[0,8]", 8).message, Contains("whole number"));
  CHECK(entry_refused("[2]", "[0,8]", 8, "F31").code == errc::unsupported);
  const std::string a = one("a", "[2]", "[0,8]");
  CHECK_THAT(refusal_of(file_of("{" + a + "," + one("b", "[2]", "[4,12]") + "}", 12)).message, Contains("overlaps"));
  CHECK_THAT(refusal_of(file_of("{" + a + "," + one("b", "[2]", "[0,8]") + "}", 8)).message, Contains("overlaps"));
  CHECK(read(file_of("{" + one("b", "[1]", "[8,12]") + "," + a + "," + one("c", "[0,7]", "[8,8]") + "}", 12)));
}

TEST_CASE("safetensors: sizes whose product is more than there can be do not wrap", "[formats][fast]") {
  for (const char* shape : {"[4294967296,4294967296]", "[9223372036854775807,2]",
                            "[9223372036854775807,9223372036854775807]", "[4611686018427387904]"}) {
    CAPTURE(shape);
    CHECK_THAT(entry_refused(shape, "[0,0]", 0).message, Contains("do not come to"));
  }
  CHECK_THAT(entry_refused("[1]", "[9223372036854775800,9223372036854775804]", 4).message, Contains("behind the end"));
}

TEST_CASE("safetensors: what cannot be written is refused", "[formats][fast]") {
  const test::temporary_folder folder;
  io::posix_storage storage;
  const std::vector<std::byte> four(4);
  const auto write = [&](std::vector<tensor_source> tensors) {
    return storage.write_atomic(folder / "x", safetensors(std::move(tensors)));
  };
  const tensor_source good{"a", element::f32, {1}, copy_of(four)};
  CHECK(write({good}));
  CHECK_FALSE(write({good, good}));
  CHECK_FALSE(write({{"a", element::f32, {2}, copy_of(four)}}));
  CHECK_FALSE(write({{"a", element::f32, {-1}, copy_of(four)}}));
  CHECK_FALSE(write({{"__metadata__", element::f32, {1}, copy_of(four)}}));
  CHECK(safetensors_file::open(folder / "x"));  // what was there before stays
}

}  // namespace causeway::formats
