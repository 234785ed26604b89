// SPDX-License-Identifier: Apache-2.0
#include <causeway/stage/activation.hpp>

#include "stage/activation_checks.hpp"
#include "support/catch.hpp"

#include <causeway/compress/bf16.hpp>
#include <causeway/compress/bits.hpp>
#include <causeway/compress/block_int8.hpp>
#include <causeway/compress/fp16.hpp>

using namespace causeway;
using namespace activation_checks;
using compress::bits;
using compress::block_int8;
using stage::coded;
using stage::plain;

namespace {

const crossing forward{.edge = 1, .way = direction::forward, .rows = 12, .width = 37, .sequences = 3, .seed = 5};
const crossing backward{.edge = 1, .way = direction::backward, .rows = 12, .width = 37, .sequences = 3, .seed = 6};

}  // namespace

static_assert(stage::ActivationCodec<coded<compress::bf16>>);
static_assert(stage::ActivationCodec<coded<block_int8, compress::fp16>>);
static_assert(plain::traits.exact && !coded<compress::bf16>::traits.exact &&
              !coded<compress::none, compress::bf16>::traits.exact);

TEST_CASE("plain: four bytes a value, and every bit arrives", "[stage][fast]") {
  thread_pool pool{1};
  plain sender, receiver;
  const auto values = normal(forward.count(), 1);
  REQUIRE(sender.most_bytes(forward) == 12 * 37 * 4);
  for (const crossing& c : {forward, backward}) {
    const auto bytes = encode(sender, pool, c, values);
    REQUIRE(bytes.size() == c.count() * 4);
    REQUIRE(same_bits(decode(receiver, pool, c, bytes), values));
  }
}

TEST_CASE("coded: activations and gradients each go through their codec, to the bit", "[stage][fast]") {
  thread_pool pool{1};
  coded<block_int8, bits<4>> sender, receiver;
  const auto values = normal(forward.count(), 2);
  REQUIRE(sender.most_bytes(forward) == 444 + 2 * 4);       // blocks of 256
  REQUIRE(sender.most_bytes(backward) == 444 / 2 + 4 * 4);  // buckets of 128
  std::vector<std::byte> expected(sender.most_bytes(forward));
  block_int8{}.encode(pool, values, expected);
  REQUIRE(encode(sender, pool, forward, values) == expected);
  expected.resize(sender.most_bytes(backward));
  bits<4>{}.encode(pool, values, expected);
  const auto bytes = encode(sender, pool, backward, values);
  REQUIRE(bytes == expected);
  std::vector<float> direct(values.size());
  REQUIRE(bits<4>{}.decode(pool, expected, direct));
  REQUIRE(same_bits(decode(receiver, pool, backward, bytes), direct));
}

TEST_CASE("coded: names say both codecs, one where they are the same", "[stage][fast]") {
  REQUIRE(plain::name == "none");
  REQUIRE(coded<bits<4>>::name == "bits4");
  REQUIRE(coded<bits<4>, block_int8>::name == "bits4,block_int8");
  REQUIRE(coded<bits<4>>{}.agreement() == coded<bits<4>>{}.agreement());
  REQUIRE(coded<bits<4>>{}.agreement() != coded<bits<4>, block_int8>{}.agreement());
}

TEST_CASE("coded: the same bits for every thread count", "[stage][fast]") {
  const crossing large{.rows = 64, .width = 1000, .sequences = 8, .seed = 7};
  check_threads([] { return plain{}; }, large, normal(large.count(), 3));
  check_threads([] { return coded<bits<4>>{}; }, large, normal(large.count(), 3));
}

TEST_CASE("coded: what is not finite arrives as an error", "[stage][fast]") {
  check_non_finite([] { return plain{}; }, forward, normal(forward.count(), 4));
  check_non_finite([] { return coded<compress::fp16>{}; }, forward, normal(forward.count(), 4));
  check_non_finite([] { return coded<block_int8>{}; }, forward, normal(forward.count(), 4));
  check_non_finite([] { return coded<bits<2>>{}; }, backward, normal(forward.count(), 4));
  thread_pool pool{1};
  coded<compress::fp16> codec;
  auto values = normal(forward.count(), 4);
  values[7] = 70000;  // finite, but no fp16
  REQUIRE(decode_error(codec, forward, encode(codec, pool, forward, values)) == errc::non_finite);
}

TEST_CASE("coded: hostile bytes give errors or finite values", "[stage][fast]") {
  const auto values = normal(forward.count(), 5);
  check_hostile_bytes([] { return plain{}; }, forward, values);
  check_hostile_bytes([] { return coded<compress::fp16>{}; }, forward, values);
  check_hostile_bytes([] { return coded<block_int8>{}; }, backward, values);
  check_hostile_bytes([] { return coded<bits<4>, bits<2>>{}; }, backward, values);
}
