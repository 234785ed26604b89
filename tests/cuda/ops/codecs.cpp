// SPDX-License-Identifier: Apache-2.0
#include <causeway/cuda/ops/codecs.hpp>

#include <causeway/compress/bf16.hpp>
#include <causeway/compress/bits.hpp>
#include <causeway/compress/block_int8.hpp>
#include <causeway/compress/e3m0.hpp>
#include <causeway/compress/fp16.hpp>
#include <causeway/cuda/bodies/pack.hpp>

#include "cuda/codec_case.hpp"
#include "support/catch.hpp"

#include <string>

namespace {

using namespace causeway;
using causeway_test::codec_result;
using causeway_test::differing;
using namespace causeway_test::codec_case;

template <class Codec>
void compare(const codec_result& got, const Codec& codec) {
  INFO(std::string{Codec::name});
  thread_pool pool{1};
  codec_result expected;
  expected.bytes.resize(codec.encoded_size(n));
  std::vector<float> row = causeway_test::numbers(n, 1);
  for (std::size_t i = 0; i < n; ++i) {
    row[i] = cuda::detail::times(gain, row[i]) + cuda::detail::times(decay, expected.error[i]);
  }
  codec.encode(pool, row, expected.bytes);
  CHECK(got.bytes == expected.bytes);
  REQUIRE(codec.decode_add(pool, expected.bytes, expected.sum, weight));
  CHECK(differing(got.sum, expected.sum) == 0);
  expected.error = row;
  REQUIRE(codec.decode_add(pool, expected.bytes, expected.error, -1.0F));
  CHECK(differing(got.error, expected.error) == 0);
}

}  // namespace

TEST_CASE("cuda codecs: bytes, errors left behind and sums have the same bits on the device and the host",
          "[cuda][gpu][fast]") {
  const auto list = causeway_test::codecs_on_device();
  if (!list) {
    CHECK(list.error().code == errc::unsupported);
    WARN("not compared: " << list.error().text());
    return;
  }
  compare(list.value()[0], compress::bf16{});
  compare(list.value()[1], compress::fp16{});
  compare(list.value()[2], compress::block_int8{});
  compare(list.value()[3], compress::e3m0{});
  compare(list.value()[4], compress::bits<1>{});
  compare(list.value()[5], compress::bits<2>{by_mean});
  compare(list.value()[6], compress::bits<4>{stochastic});
}

TEST_CASE("cuda codecs: the CPU's codecs work where nvcc compiled them", "[cuda][fast]") {
  CHECK(causeway_test::codecs_of_cpu_work());
}
