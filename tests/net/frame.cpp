// SPDX-License-Identifier: Apache-2.0
#include <causeway/net/frame.hpp>

#include "support/catch.hpp"

#include <cstddef>
#include <cstring>
#include <random>
#include <vector>

using namespace causeway;
using namespace causeway::net;

namespace {

frame_header sample() {
  frame_header h;
  h.run_id = 0x1122334455667788;
  h.sender = 3;
  h.id = {.channel = 5, .epoch = 2, .step = 1000, .parent = 0xFEDCBA9876543210};
  h.sequence = 17;
  h.message_length = 3'000'000;
  h.chunk_offset = 1U << 20U;
  h.chunk_length = 1U << 20U;
  return h;
}

/// The decoder must not read a byte beyond `bytes`: they lie at the end of their allocation.
errc reason(const std::vector<std::byte>& bytes) {
  const auto h = decode_header(bytes);
  REQUIRE_FALSE(h);
  REQUIRE_FALSE(h.error().message.empty());
  return h.error().code;
}

}  // namespace

TEST_CASE("frame: a header survives encoding and decoding", "[net][fast]") {
  const auto decoded = decode_header(encode_header(sample()));
  REQUIRE(decoded);
  CHECK(*decoded == sample());
  frame_header empty;
  CHECK(*decode_header(encode_header(empty)) == empty);
}

TEST_CASE("frame: the bytes on the wire are those of the documentation", "[net][fast]") {
  const header_block block = encode_header(sample());
  CHECK(std::memcmp(block.data(), "CSWY", 4) == 0);
  CHECK(block[4] == std::byte{1});
  CHECK(block[6] == std::byte{1});
  CHECK(net::detail::load_little<std::uint64_t>(block.data() + 8) == 0x1122334455667788);
  CHECK(net::detail::load_little<std::uint32_t>(block.data() + 20) == 3);
  CHECK(net::detail::load_little<std::uint64_t>(block.data() + 64) == 1U << 20U);
}

TEST_CASE("frame: every single bit flip is rejected", "[net][fast]") {
  const header_block good = encode_header(sample());
  for (std::size_t bit = 0; bit < header_bytes * 8; ++bit) {
    std::vector<std::byte> bad{good.begin(), good.end()};
    bad[bit / 8] ^= static_cast<std::byte>(1U << bit % 8);
    CAPTURE(bit);
    reason(bad);
  }
}

TEST_CASE("frame: every truncation is rejected", "[net][fast]") {
  const header_block good = encode_header(sample());
  for (std::size_t keep = 0; keep < header_bytes; ++keep) {
    CHECK(reason({good.begin(), good.begin() + static_cast<std::ptrdiff_t>(keep)}) == errc::corrupt);
  }
}

TEST_CASE("frame: 200 000 random inputs are all rejected with a reason", "[net][fast]") {
  std::mt19937_64 random{11};
  const header_block good = encode_header(sample());
  for (int round = 0; round < 200'000; ++round) {
    std::vector<std::byte> bytes(1 + random() % 100);
    for (std::byte& b : bytes) b = static_cast<std::byte>(random());
    // Half of them start like a frame of ours, so that the later checks see inputs too.
    if (round % 2 == 0) std::memcpy(bytes.data(), good.data(), std::min<std::size_t>(bytes.size(), random() % 72));
    const auto h = decode_header(bytes);
    REQUIRE_FALSE(h);
    REQUIRE_FALSE(h.error().message.empty());
  }
}

TEST_CASE("frame: whatever decodes keeps the limits, also when a liar computes the checksum", "[net][fast]") {
  std::mt19937_64 random{13};
  int accepted = 0;
  for (int round = 0; round < 200'000; ++round) {
    frame_header h = sample();
    h.kind = static_cast<frame_kind>(random() % 22);
    h.flags = static_cast<std::uint8_t>(random() % 8 == 0 ? random() : 0);
    h.message_length = random() >> (random() % 64);
    h.chunk_offset = random() >> (random() % 64);
    h.chunk_length = static_cast<std::uint32_t>(random() >> (random() % 64));
    const auto decoded = decode_header(encode_header(h));
    if (!decoded) continue;
    ++accepted;
    const bool may_have_digest = decoded->kind == frame_kind::data || decoded->kind == frame_kind::control;
    REQUIRE((decoded->flags == 0 || (decoded->flags == has_digest && may_have_digest)));
    REQUIRE(decoded->chunk_length <= max_chunk_bytes);
    REQUIRE(decoded->message_length <= max_message_bytes);
    if (decoded->kind == frame_kind::data)
      REQUIRE(decoded->chunk_offset + decoded->chunk_length <= decoded->message_length);
    if (decoded->kind == frame_kind::control) {
      REQUIRE(decoded->chunk_length <= max_control_bytes);
      REQUIRE(decoded->flags == has_digest);
    } else if (decoded->kind >= frame_kind::hello) {
      REQUIRE(decoded->chunk_length <= max_handshake_bytes);
    }
  }
  CHECK(accepted > 1000);
}

TEST_CASE("frame: other protocols and other versions are told apart", "[net][fast]") {
  std::vector<std::byte> http(header_bytes);
  std::memcpy(http.data(), "GET / HTTP/1.1\r\n", 16);
  CHECK(reason(http) == errc::protocol);
  const header_block good = encode_header(sample());
  std::vector<std::byte> newer{good.begin(), good.end()};
  newer[4] = std::byte{2};
  CHECK(reason(newer) == errc::version_mismatch);
  CHECK(decode_header(newer).error().message.find("version 2, we speak 1") != std::string::npos);
}
