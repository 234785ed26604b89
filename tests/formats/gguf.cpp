// SPDX-License-Identifier: Apache-2.0
#include <causeway/formats/gguf.hpp>

#include <causeway/tensor/dtype.hpp>

#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "support/catch.hpp"

namespace causeway::formats {
namespace {

std::string written(const io::byte_producer& producer) {
  std::string all;
  const auto done = producer([&](std::span<const std::byte> piece) -> result<void> {
    all.append(reinterpret_cast<const char*>(piece.data()), piece.size());
    return {};
  });
  if (!done) FAIL(done.error().text());
  return all;
}

io::byte_producer bytes(std::string text) {
  return [text = std::move(text)](const io::byte_sink& sink) { return sink(std::as_bytes(std::span{text})); };
}

template <class T>
std::string raw(T value) {
  std::string text(sizeof value, '\0');
  std::memcpy(text.data(), &value, sizeof value);
  return text;
}

std::string text(const std::string& s) { return raw<std::uint64_t>(s.size()) + s; }

}  // namespace

TEST_CASE("GGUF: a file is what its specification says, byte for byte", "[formats][fast]") {
  gguf_metadata m;
  m.add("a", 7U);
  m.add("b", true);
  m.add("c", 0.5F);
  m.add("d", "text");
  m.add("e", std::vector<std::int32_t>{-1, 2});
  m.add("f", std::vector<std::string>{"x", ""});
  const std::string file = written(gguf(m, {{"one", gguf_type::f32, 1, 3, true, bytes(std::string(12, '1'))},
                                            {"two", gguf_type::f16, 2, 4, false, bytes(std::string(16, '2'))}}));

  std::string expected = "GGUF" + raw<std::uint32_t>(3) + raw<std::uint64_t>(2) + raw<std::uint64_t>(6);
  expected += text("a") + raw<std::uint32_t>(4) + raw<std::uint32_t>(7);
  expected += text("b") + raw<std::uint32_t>(7) + '\1';
  expected += text("c") + raw<std::uint32_t>(6) + raw(0.5F);
  expected += text("d") + raw<std::uint32_t>(8) + text("text");
  expected += text("e") + raw<std::uint32_t>(9) + raw<std::uint32_t>(5) + raw<std::uint64_t>(2) + raw<std::int32_t>(-1) +
              raw<std::int32_t>(2);
  expected += text("f") + raw<std::uint32_t>(9) + raw<std::uint32_t>(8) + raw<std::uint64_t>(2) + text("x") + text("");
  expected += text("one") + raw<std::uint32_t>(1) + raw<std::uint64_t>(3) + raw<std::uint32_t>(0) + raw<std::uint64_t>(0);
  expected += text("two") + raw<std::uint32_t>(2) + raw<std::uint64_t>(4) + raw<std::uint64_t>(2) + raw<std::uint32_t>(1) +
              raw<std::uint64_t>(32);
  expected.resize((expected.size() + 31) / 32 * 32, '\0');
  expected += std::string(12, '1') + std::string(20, '\0') + std::string(16, '2') + std::string(16, '\0');
  CHECK(file == expected);
}

TEST_CASE("GGUF: values that are not as long as their shape are refused", "[formats][fast]") {
  const auto producer = gguf({}, {{"short", gguf_type::bf16, 2, 2, false, bytes("1234567")}});
  const auto done = producer([](std::span<const std::byte>) -> result<void> { return {}; });
  REQUIRE_FALSE(done);
  CHECK(done.error().text().find("tensor 'short'") != std::string::npos);
  CHECK(done.error().text().find("7 bytes; its shape says 8") != std::string::npos);
}

TEST_CASE("GGUF: a block of q8_0 is a scale and whole multiples of it", "[formats][fast]") {
  std::vector<float> values(64, 0.0F);  // the second block has only zeros
  values[0] = 63.5F, values[1] = -63.5F, values[2] = 0.25F, values[3] = 0.2F, values[4] = -0.25F;  // the scale is 0.5
  const auto packed = gguf_bytes(gguf_type::q8_0, values);
  REQUIRE(packed);
  REQUIRE(packed->size() == 68);
  REQUIRE(bytes_of(gguf_type::q8_0, 64) == 68);
  f16 scale{0.0F};
  std::memcpy(&scale, packed->data(), 2);
  CHECK(static_cast<float>(scale) == 0.5F);
  const auto at = [&](std::size_t i) { return static_cast<int>(static_cast<std::int8_t>((*packed)[i])); };
  CHECK(at(2) == 127);
  CHECK(at(3) == -127);
  CHECK(at(4) == 1);  // halves go away from zero
  CHECK(at(5) == 0);
  CHECK(at(6) == -1);
  for (std::size_t i = 34; i < 68; ++i) CHECK(at(i) == 0);
}

TEST_CASE("GGUF: q8_0 refuses what it cannot hold", "[formats][fast]") {
  std::vector<float> values(32, 1.0F);
  values[9] = GENERATE(std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(), -1e9F);
  const auto packed = gguf_bytes(gguf_type::q8_0, values);
  REQUIRE_FALSE(packed);
  CHECK(packed.error().code == errc::invalid_argument);
  CHECK(packed.error().text().find("Write f32") != std::string::npos);
}

}  // namespace causeway::formats
