// SPDX-License-Identifier: Apache-2.0
#include <causeway/collective/refusal.hpp>

#include "support/catch.hpp"

#include <vector>

using namespace causeway;
using namespace causeway::collective;

TEST_CASE("refusal: survives the wire", "[collective][fast]") {
  for (const errc code : {errc::non_finite, errc::corrupt, errc::protocol}) {
    const auto back = from_bytes(to_bytes({3, code}), 4);
    REQUIRE(back);
    CHECK(back->peer == 3);
    CHECK(back->code == code);
  }
  CHECK(from_bytes(to_bytes({4, errc::non_finite}), 4)->peer == 4);      // nobody: the sum is too large
  for (const errc code : {errc::invalid_argument, errc::unsupported}) {  // all peers'
    CHECK(from_bytes(to_bytes({4, code}), 4)->code == code);
    CHECK_FALSE(from_bytes(to_bytes({3, code}), 4));
  }
}

TEST_CASE("refusal: claims that make no sense are not believed", "[collective][fast]") {
  CHECK_FALSE(from_bytes(to_bytes({5, errc::non_finite}), 4));
  CHECK_FALSE(from_bytes(to_bytes({1, errc::disk_full}), 4));
  auto bytes = to_bytes({1, errc::non_finite});
  CHECK_FALSE(from_bytes(std::span{bytes}.first(7), 4));
  CHECK_FALSE(from_bytes({}, 4));
  bytes[6] = std::byte{1};  // a code that only looks known when cut to 16 bits
  CHECK_FALSE(from_bytes(bytes, 4));
}

TEST_CASE("refusal: the lowest peer is kept, whatever the order", "[collective][fast]") {
  std::optional<refusal> kept;
  for (const std::uint32_t peer : {2U, 1U, 3U}) note(kept, {peer, errc::non_finite});
  CHECK(kept->peer == 1);
}

TEST_CASE("refusal: what this peer saw itself is evidence, what it was told is not", "[collective][fast]") {
  const refusal told = *from_bytes(to_bytes({2, errc::non_finite}), 4);
  CHECK(to_error({2, errc::non_finite}, 4).culprit == 2);
  CHECK(to_error(told, 4).where == "peer 2");
  CHECK(to_error(told, 4).culprit == error::nobody);
  CHECK(to_error({4, errc::non_finite}, 4).culprit == error::nobody);  // the sum is too large
  std::optional<refusal> kept = told;
  note(kept, {2, errc::corrupt});
  CHECK(!kept->told);
  note(kept, told);
  CHECK(!kept->told);
}

TEST_CASE("refusal: the error says whose values they were", "[collective][fast]") {
  CHECK(to_error({2, errc::corrupt}, 4).where == "peer 2");
  CHECK(to_error({2, errc::corrupt}, 4).code == errc::corrupt);
  CHECK(to_error({4, errc::non_finite}, 4).where == "all-reduce");
  CHECK(to_error({4, errc::invalid_argument}, 4).message.find("add up to 0") != std::string::npos);
  CHECK(to_error({4, errc::unsupported}, 4).code == errc::unsupported);
  CHECK(to_error({4, errc::unsupported}, 4).message.find("leave clips out") != std::string::npos);
}
