// SPDX-License-Identifier: Apache-2.0
#include <causeway/membership/records.hpp>

#include "support/catch.hpp"

#include <causeway/core/rng.hpp>

using namespace causeway;
using namespace causeway::membership::detail;

namespace {

using ids = std::vector<net::peer_id>;
constexpr std::size_t wide_bytes = 32;

std::size_t list_bytes(const ids& list, const ids& base) {
  net::byte_writer out;
  put_list(out, list, base);
  net::byte_reader in{out.bytes()};
  CHECK(get_list(in, base, list.size()) == list);
  CHECK(in.finish("list"));
  return out.bytes().size();
}

std::size_t count_bytes(const std::vector<std::uint64_t>& values) {
  net::byte_writer out;
  put_counts(out, values);
  net::byte_reader in{out.bytes()};
  CHECK(get_counts(in, values.size()) == values);
  CHECK(in.finish("counts"));
  return out.bytes().size();
}

ids thousand() {
  ids list;
  for (std::uint64_t i = 0; i < 1000; ++i) list.push_back(mix(7, i));
  return list;
}

}  // namespace

TEST_CASE("packing: ids have 256 bits, and those that no memory holds yet are refused", "[membership][fast]") {
  net::byte_writer out;
  put_wide(out, 0x1122334455667788U);
  REQUIRE(out.bytes().size() == wide_bytes);
  net::byte_reader in{out.bytes()};
  CHECK(get_wide(in) == 0x1122334455667788U);
  std::vector<std::byte> longer{out.bytes().begin(), out.bytes().end()};
  longer[20] = std::byte{1};
  net::byte_reader refused{longer};
  CHECK(get_wide(refused) == 0);
  CHECK_FALSE(refused.ok());
}

TEST_CASE("packing: varints of all lengths are read back, longer ones refused", "[membership][fast]") {
  for (unsigned shift = 0; shift < 64; ++shift) {
    const std::uint64_t value = (std::uint64_t{1} << shift) - (shift % 2);
    net::byte_writer out;
    put_varint(out, value);
    net::byte_reader in{out.bytes()};
    CHECK(get_varint(in) == value);
    CHECK(in.finish("varint"));
  }
  const std::vector<std::byte> endless(11, std::byte{0xFF});
  net::byte_reader in{endless};
  (void)get_varint(in);
  CHECK_FALSE(in.ok());
}

TEST_CASE("packing: a list that hardly changes takes hardly any bytes", "[membership][fast]") {
  const ids base = thousand();
  CHECK(list_bytes(base, base) <= 6);
  CHECK(list_bytes({}, base) == 1);
  CHECK(list_bytes(base, {}) <= 1000 * wide_bytes + 6);
  ids changed = base;
  changed.erase(changed.begin() + 500);
  changed.push_back(42);
  CHECK(list_bytes(changed, base) <= wide_bytes + 14);
  const ids backwards{base.rbegin(), base.rend()};
  CHECK(list_bytes(backwards, base) <= 4002);
}

TEST_CASE("packing: counts that are alike take hardly any bytes, others what they differ by", "[membership][fast]") {
  CHECK(count_bytes({}) == 1);
  CHECK(count_bytes(std::vector<std::uint64_t>(1000, 640)) <= 6);
  std::vector<std::uint64_t> few(1000, 640);
  few[7] = 0;
  CHECK(count_bytes(few) <= 16);
  rng draw{3};
  std::vector<std::uint64_t> small;
  for (int i = 0; i < 1000; ++i) small.push_back(100'000 + draw.below(8));
  CHECK(count_bytes(small) <= 390);
  small[5] = UINT64_MAX;
  (void)count_bytes(small);
}

TEST_CASE("packing: readers survive any bytes and give no more than they may", "[membership][fast]") {
  rng draw{5};
  const ids base = thousand();
  for (int i = 0; i < 20000; ++i) {
    std::vector<std::byte> bytes(draw.below(60));
    for (std::byte& b : bytes) b = static_cast<std::byte>(draw.below(draw.below(2) == 0 ? 256 : 8));
    net::byte_reader list{bytes};
    CHECK(get_list(list, base, 50).size() <= 50);
    net::byte_reader counts{bytes};
    CHECK(get_counts(counts, 50).size() == 50);
  }
}
