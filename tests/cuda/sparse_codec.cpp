// SPDX-License-Identifier: Apache-2.0
// cuda::codec of sparse messages: what it does with bytes, values and devices that are no good, and where rows lie apart.
#include <causeway/cuda/codec.hpp>

#include "cuda/host_engine.hpp"
#include "cuda/sparse_case.hpp"
#include "support/catch.hpp"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <memory>
#include <vector>

using namespace causeway;
using namespace causeway_test;
using namespace causeway_test::sparse_case;

TEST_CASE("cuda sparse codec: bytes that no encoder makes are refused as on the CPU, and touch nothing", "[cuda][fast]") {
  thread_pool pool{1};
  const auto ctx = context(pool);
  const auto engine = engine_on_host();
  const auto before = numbers(n, 4), counts_before = numbers(n, 5);
  row sum = row_there(*engine, before), counts = row_there(*engine, counts_before);
  for_messages([&](const auto& how) {
    INFO(std::string{how.name});
    const cuda::codec codec{engine, how};
    std::vector<std::byte> good(how.most_bytes(ctx, n));
    how.encode(ctx, before, good);
    const std::size_t index_bytes = how.choice().most_bytes(ctx, n);
    rng draw{5};
    int refused = 0;
    for (int i = 0; i < 60; ++i) {
      auto bytes = good;
      if (i == 0) std::fill(bytes.begin(), bytes.end(), std::byte{0xFF});
      if (i == 1) bytes.pop_back();
      if (i == 2) bytes.push_back(std::byte{0});
      if (i == 3) bytes.resize(index_bytes / 2);
      if (i == 4) std::fill(bytes.begin() + static_cast<std::ptrdiff_t>(index_bytes), bytes.end(), std::byte{0xFF});
      if (i == 5) std::fill(bytes.begin(), bytes.end() - 1, std::byte{0xFF}), bytes.pop_back();
      if (i > 5) bytes[draw.below(i < 30 && index_bytes > 0 ? index_bytes : bytes.size())] ^= std::byte{0x81};
      auto sum_here = before, counts_here = counts_before;
      const auto expected = how.decode_add(ctx, bytes, sum_here, 2.0F, counts_here);
      const auto judged = codec.decode_add(ctx, bytes, sum, 2.0F, counts);
      REQUIRE(judged.has_value() == expected.has_value());
      CHECK(same(sum, sum_here));
      CHECK(same(counts, counts_here));
      if (expected) {
        std::copy(before.begin(), before.end(), sum.begin());
        std::copy(counts_before.begin(), counts_before.end(), counts.begin());
        continue;
      }
      ++refused;
      CHECK(judged.error().code == expected.error().code);
    }
    CHECK(refused >= 5);
    CHECK(engine->finish());
  });
}

TEST_CASE("cuda sparse codec: values that are not finite, and a device that fails, make messages that are refused",
          "[cuda][fast]") {
  thread_pool pool{1};
  const auto ctx = context(pool);
  for_messages([&](const auto& how) {
    INFO(std::string{how.name});
    const auto report = std::make_shared<queue_report>();
    const auto engine = engine_on_host(report);
    const cuda::codec codec{engine, how};
    auto x = numbers(n, 6);
    row there = row_there(*engine, x), sum = there;
    std::vector<std::byte> bytes(how.most_bytes(ctx, n)), good(bytes.size());
    codec.encode(ctx, there, good);

    report->fail_at = 0;
    codec.encode(ctx, there, bytes);
    auto here = x;
    CHECK_FALSE(how.decode_add(ctx, bytes, here, 1.0F, {}));
    const auto lost = codec.decode_add(ctx, good, sum, 1.0F, {});
    REQUIRE_FALSE(lost);
    CHECK(lost.error().code == errc::device_lost);
    CHECK_FALSE(codec.divide(sum, {}, 1.0F));
    const auto told = engine->finish();
    REQUIRE_FALSE(told);
    CHECK(told.error().code == errc::device_lost);
    report->fail_at = -1;
    CHECK(same(sum, x));

    std::fill(x.begin(), x.end(), std::numeric_limits<float>::quiet_NaN());
    std::copy(x.begin(), x.end(), there.begin());
    row left = there;
    CHECK(codec.encode(ctx, there, bytes, left) == bytes.size());
    const auto read = how.decode_add(ctx, bytes, here, 1.0F, {});
    REQUIRE_FALSE(read);
    CHECK(read.error().code == errc::non_finite);
  });
}

TEST_CASE("cuda sparse codec: where rows lie apart the host does the work, with the same bits", "[cuda][fast]") {
  thread_pool pool{1};
  const auto ctx = context(pool);
  const auto report = std::make_shared<queue_report>();
  const auto engine = engine_on_host(report);
  const compress::sparse<compress::dct_tiles, compress::top_k, compress::bits<4>> how;
  const cuda::codec codec{engine, how};
  const cuda::codec<compress::sparse<compress::dct_tiles, compress::top_k, compress::bits<4>>> no_engine;
  const auto x = numbers(n, 8);
  std::vector<std::byte> bytes(how.most_bytes(ctx, n)), expected(bytes.size());
  std::vector<float> left(n), expected_left(n);
  how.encode(ctx, x, expected);
  REQUIRE(compress::residual_of(how, ctx, x, expected, expected_left));

  CHECK(codec.encode(ctx, x, bytes, left) == bytes.size());
  CHECK(bytes == expected);
  CHECK(left == expected_left);
  CHECK(no_engine.encode(ctx, x, bytes) == bytes.size());
  CHECK(bytes == expected);
  CHECK(report->out == 0);

  const row there = row_there(*engine, x);
  std::fill(left.begin(), left.end(), 0.0F);
  CHECK(codec.encode(ctx, there, bytes, left) == bytes.size());  // the message is made there, the rest here
  CHECK(bytes == expected);
  CHECK(left == expected_left);
  CHECK(report->out == bytes.size());

  auto sum_here = x, counts_here = x;
  row sum = row_there(*engine, x);
  std::vector<float> counts = x;
  REQUIRE(codec.decode_add(ctx, bytes, sum, 0.5F, counts));
  REQUIRE(how.decode_add(ctx, bytes, sum_here, 0.5F, counts_here));
  CHECK(same(sum, sum_here));
  CHECK(counts == counts_here);
  CHECK(report->out == bytes.size());
  CHECK_FALSE(codec.keeps(counts));
  CHECK(codec.keeps(sum));
}
