// SPDX-License-Identifier: Apache-2.0
#include <causeway/membership/transfer/transfer_wire.hpp>

#include <causeway/core/rng.hpp>

#include <array>
#include <numeric>
#include <span>
#include <vector>

#include "support/catch.hpp"

using namespace causeway;
using namespace causeway::membership;

namespace {

constexpr std::array kinds{transfer_kind::ask_manifest, transfer_kind::manifest,   transfer_kind::ask_chunk,
                           transfer_kind::chunk,        transfer_kind::gone,       transfer_kind::receipt,
                           transfer_kind::cancel,       transfer_kind::keep,       transfer_kind::means,
                           transfer_kind::ask_time,     transfer_kind::time_given, transfer_kind::packed_chunk};

std::vector<std::byte> random_bytes(rng& random, std::size_t count) {
  std::vector<std::byte> bytes(count);
  for (std::byte& b : bytes) b = static_cast<std::byte>(random.next());
  return bytes;
}

bool equal(std::span<const std::byte> a, std::span<const std::byte> b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end());
}

image_layout layout_of(std::size_t chunks) { return {64, {chunks * 64 - 10, 10}}; }

}  // namespace

TEST_CASE("transfer messages: every kind comes back as it was, in a byte range of its own", "[membership][fast]") {
  rng random{1};
  for (const transfer_kind kind : kinds) {
    const auto content = random_bytes(random, 100);
    const transfer_message m{kind, {random.next(), random.next()}, random.next(), random.next(), random.next(), content};
    const auto bytes = encode(m);
    REQUIRE(is_transfer_message(bytes));
    const auto back = decode_transfer(bytes);
    REQUIRE(back);
    const auto has = causeway::membership::detail::fields_of(kind);
    CHECK(back->kind == kind);
    CHECK(back->what == (has.what ? m.what : state_name{}));
    CHECK(back->index == (has.index ? m.index : 0));
    CHECK(back->ticket == (has.ticket ? m.ticket : 0));
    CHECK(back->newest == (has.newest ? m.newest : 0));
    CHECK(equal(back->content, has.content ? std::span<const std::byte>{content} : std::span<const std::byte>{}));
    CHECK(bytes.size() <= content.size() + transfer_overhead);
  }
}

TEST_CASE("transfer messages: what is cut short, too long or of another kind is refused", "[membership][fast]") {
  for (const transfer_kind kind : kinds) {
    const auto bytes = encode(transfer_message{.kind = kind});
    for (std::size_t n = 0; n < bytes.size(); ++n) CHECK(!decode_transfer(std::span{bytes}.first(n)));
    auto longer = bytes;
    longer.push_back(std::byte{0});
    CHECK(decode_transfer(longer).has_value() == causeway::membership::detail::fields_of(kind).content);
  }
  for (unsigned first = 0; first < 256; ++first) {
    std::vector<std::byte> bytes(60);
    bytes[0] = static_cast<std::byte>(first);
    CHECK(is_transfer_message(bytes) == (first >= 0x80 && first < 0x90));
    if (first < 0x80 || first > 0x8B) CHECK(!decode_transfer(bytes));
  }
}

TEST_CASE("transfer messages: random bytes do no harm to the decoders", "[membership][fast]") {
  rng random{2};
  const std::vector<std::uint64_t> hashes(40'000);
  std::size_t read = 0;
  for (int i = 0; i < 200'000; ++i) {
    auto bytes = random_bytes(random, random.below(80));
    if (!bytes.empty()) bytes[0] = static_cast<std::byte>(0x80 + random.below(8));
    if (const auto m = decode_transfer(bytes)) {
      ++read;
      // Content never points outside of what was given.
      REQUIRE(m->content.size() <= bytes.size());
    }
    if (bytes.size() > 20 && random.below(2) == 0) {  // counts that are small enough to be believed
      for (std::size_t k = 13; k < 20; ++k) bytes[k] = std::byte{0};
      bytes[12] = static_cast<std::byte>(random.below(8));
    }
    if (const auto head = decode_manifest_head(bytes)) {
      REQUIRE(8 * head->layout.sizes.size() <= bytes.size());
      REQUIRE(head->layout.chunk_bytes > 0);
      (void)head->layout.chunks();
      (void)head->root();
    }
    manifest_assembler assembler{layout_of(3), 1};
    REQUIRE(assembler.take(bytes) == manifest_assembler::outcome::bad);
  }
  CHECK(read > 1000);
}

TEST_CASE("manifest head: a changed bit anywhere gives another root or none at all", "[membership][fast]") {
  const manifest_head head{layout_of(9), 77};
  auto bytes = encode(head);
  REQUIRE(decode_manifest_head(bytes)->root() == head.root());
  for (std::size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    bytes[bit / 8] ^= static_cast<std::byte>(1U << bit % 8);
    const auto other = decode_manifest_head(bytes);
    CHECK((!other || other->root() != head.root()));
    bytes[bit / 8] ^= static_cast<std::byte>(1U << bit % 8);
  }
}

TEST_CASE("manifest head: sizes whose sum would wrap, and more parts than bytes, are refused", "[membership][fast]") {
  CHECK(!decode_manifest_head(encode(manifest_head{{64, {std::uint64_t{1} << 60U}}, 0})));
  CHECK(!decode_manifest_head(encode(manifest_head{{0, {1}}, 0})));
  net::byte_writer claims;
  claims.put(std::uint64_t{0}).put(std::uint32_t{64}).put(std::uint32_t{0xFFFFFFFFU});
  CHECK(decode_manifest_head(claims.bytes()).error().code == errc::too_large);
}

TEST_CASE("manifest: comes in pieces, and is right as a whole or begins anew", "[membership][fast]") {
  using outcome = manifest_assembler::outcome;
  const auto layout = layout_of(2 * hashes_per_piece + 5);
  std::vector<std::uint64_t> hashes(layout.chunks());
  std::iota(hashes.begin(), hashes.end(), 100U);
  const manifest_head head{layout, digest_of(hashes)};
  manifest_assembler good{layout, head.root()};
  REQUIRE(manifest_pieces(hashes.size()) == 4);
  CHECK(good.take(encode(head)) == outcome::more);
  CHECK(good.take(encode_hashes(hashes, 1)) == outcome::more);
  CHECK(good.take(encode_hashes(hashes, 1)) == outcome::more);  // the right length, and the wrong piece
  CHECK(good.take(encode_hashes(hashes, 3)) == outcome::bad);
  CHECK(good.next_piece() == 1);  // the head stays
  for (std::uint64_t piece = 1; piece < 4; ++piece) {
    CHECK(good.take(encode_hashes(hashes, piece)) == (piece < 3 ? outcome::more : outcome::complete));
  }
  CHECK(good.hashes() == hashes);
  CHECK(manifest_assembler{layout_of(5), head.root()}.take(encode(head)) == outcome::foreign);
  CHECK(manifest_assembler{layout, head.root() + 1}.take(encode(head)) == outcome::bad);
}
