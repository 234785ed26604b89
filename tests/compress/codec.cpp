// SPDX-License-Identifier: Apache-2.0
#include <causeway/compress/codec.hpp>

#include "compress/codec_checks.hpp"
#include "support/catch.hpp"

#include <causeway/compress/bf16.hpp>
#include <causeway/compress/block_int8.hpp>
#include <causeway/compress/fp16.hpp>
#include <causeway/compress/none.hpp>

using namespace causeway::compress;

namespace {

struct only_a_name {
  static constexpr std::string_view name = "x";
  static constexpr codec_traits traits{};
  static constexpr bool raw = false;
};

}  // namespace

TEMPLATE_TEST_CASE("codecs: bytes and values do not depend on instruction set or thread count", "[compress][fast]", none,
                   bf16, fp16, block_int8) {
  codec_checks::check_determinism(TestType{});
}

TEMPLATE_TEST_CASE("codecs: wrong lengths and values that are not finite are refused", "[compress][fast]", none, bf16, fp16,
                   block_int8) {
  codec_checks::check_refusals(TestType{});
}

TEMPLATE_TEST_CASE("codecs: values may be cut at multiples of a block", "[compress][fast]", none, bf16, fp16, block_int8) {
  codec_checks::check_cuts(TestType{});
}

TEMPLATE_TEST_CASE("codecs: a second round trip loses nothing more", "[compress][fast]", none, bf16, fp16) {
  codec_checks::check_second_trip(TestType{});
}

TEMPLATE_TEST_CASE("codecs: adding gives the bits of decoding, a multiplication and an addition", "[compress][fast]", none,
                   bf16, fp16, block_int8) {
  STATIC_REQUIRE(AddingCodec<TestType>);
  codec_checks::check_adding(TestType{});
}

TEMPLATE_TEST_CASE("codecs: with error feedback nothing is lost", "[compress][fast]", none, bf16, fp16, block_int8) {
  codec_checks::check_error_feedback(TestType{});
}

TEMPLATE_TEST_CASE("codecs: bytes that nobody encoded are refused, or decode to finite values", "[compress][fast]", none,
                   bf16, fp16, block_int8) {
  codec_checks::check_random_bytes(TestType{});
}

TEMPLATE_TEST_CASE("codecs: every codec is what a collective wants of an encoding", "[compress][fast]", none, bf16, fp16,
                   block_int8) {
  STATIC_REQUIRE(Codec<TestType>);
  STATIC_REQUIRE(causeway::collective::Encoding<TestType>);
  STATIC_REQUIRE(TestType::traits.lossy == !TestType::raw);
}

TEST_CASE("codecs: something that only looks like a codec is none", "[compress][fast]") {
  STATIC_REQUIRE_FALSE(Codec<only_a_name>);
  STATIC_REQUIRE_FALSE(Codec<int>);
}
