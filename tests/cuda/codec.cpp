// SPDX-License-Identifier: Apache-2.0
#include <causeway/cuda/codec.hpp>

#include <causeway/cuda/backend.hpp>

#include "cuda/body_support.hpp"
#include "cuda/host_engine.hpp"
#include "cuda/wire_case.hpp"
#include "support/catch.hpp"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <memory>
#include <vector>

using namespace causeway;
using namespace causeway_test;
using namespace causeway_test::wire_case;

namespace {

/// Values in memory of an engine.
aligned_buffer<float> row_there(cuda::engine& e, std::uint64_t seed) {
  aligned_buffer<float> row{n, cuda::memory_of(e)};
  const auto values = numbers(n, seed);
  std::copy(values.begin(), values.end(), row.data());
  return row;
}

bool same(std::span<const float> a, std::span<const float> b) { return std::equal(a.begin(), a.end(), b.begin(), b.end()); }

}  // namespace

TEST_CASE("cuda codec: bytes and values of rows on the device are the CPU's to the bit", "[cuda][fast]") {
  thread_pool pool{1};
  for_codecs([&](const auto& how) {
    INFO(how.name);
    const auto report = std::make_shared<queue_report>();
    const auto engine = engine_on_host(report);
    const cuda::codec codec{engine, how};
    auto there = row_there(*engine, 1);
    std::vector<float> here = numbers(n, 1);
    std::vector<std::byte> bytes(how.encoded_size(n)), expected(how.encoded_size(n));
    CHECK(codec.encode(pool, there.span(), bytes) == bytes.size());
    how.encode(pool, here, expected);
    CHECK(bytes == expected);
    CHECK(report->out == bytes.size());

    REQUIRE(codec.decode(pool, bytes, there.span()));
    REQUIRE(how.decode(pool, bytes, here));
    CHECK(same(there.span(), here));
    REQUIRE(codec.decode_add(pool, bytes, there.span(), -0.3F));
    REQUIRE(how.decode_add(pool, bytes, here, -0.3F));
    CHECK(same(there.span(), here));
    CHECK(report->in == 2 * (bytes.size() + 4));
    CHECK(report->out == bytes.size() + 2 * 4);
  });
}

TEST_CASE("cuda codec: a part of a row is encoded where it lies, a row of the host on the host", "[cuda][fast]") {
  thread_pool pool{1};
  const auto report = std::make_shared<queue_report>();
  const auto engine = engine_on_host(report);
  const cuda::codec<compress::block_int8> codec{engine};
  const auto there = row_there(*engine, 2);
  const std::vector<float> here = numbers(n, 2);
  std::vector<std::byte> bytes(codec.encoded_size(700)), expected(codec.encoded_size(700));
  for (const std::size_t at : {std::size_t{0}, std::size_t{256}, n - 700}) {
    codec.encode(pool, there.span().subspan(at, 700), bytes);
    codec.wrapped().encode(pool, std::span{here}.subspan(at, 700), expected);
    CHECK(bytes == expected);
  }
  CHECK(report->out == 3 * bytes.size());
  codec.encode(pool, std::span{here}.first(700), bytes);
  CHECK(report->out == 3 * bytes.size());
}

TEST_CASE("cuda codec: bytes that no encoder makes are refused as on the CPU, and touch nothing", "[cuda][fast]") {
  thread_pool pool{1};
  const auto engine = engine_on_host();
  for_codecs([&](const auto& how) {
    INFO(how.name);
    const cuda::codec codec{engine, how};
    auto row = row_there(*engine, 4);
    const std::vector<float> before = numbers(n, 4);
    std::vector<float> here(n);
    std::vector<std::byte> good(how.encoded_size(n));
    how.encode(pool, before, good);
    rng draw{5};
    int refused = 0;
    for (int i = 0; i < 60; ++i) {
      auto bytes = good;
      for (int k = 0; k < 1 + i / 10; ++k) bytes[draw.below(bytes.size())] = static_cast<std::byte>(draw.below(2) * 255);
      if (i == 0) std::fill(bytes.begin(), bytes.end(), std::byte{0xFF});
      if (i == 1) bytes.pop_back();
      const auto expected = how.decode(pool, bytes, here);
      auto judged = codec.decode_add(pool, bytes, row.span(), 2.0F);
      REQUIRE(judged.has_value() == expected.has_value());
      if (expected) {
        std::copy(before.begin(), before.end(), row.data());
        continue;
      }
      ++refused;
      CHECK(judged.error().code == expected.error().code);
      CHECK(same(row.span(), before));
      judged = codec.decode(pool, bytes, row.span());
      REQUIRE_FALSE(judged);
      CHECK(judged.error().code == expected.error().code);
      CHECK(same(row.span(), before));
    }
    CHECK(refused >= 2);
    CHECK(engine->finish());
  });
}

TEST_CASE("cuda codec: values that are not finite, and a device that fails, make messages that are refused",
          "[cuda][fast]") {
  thread_pool pool{1};
  for_codecs([&](const auto& how) {
    INFO(how.name);
    const auto report = std::make_shared<queue_report>();
    const auto engine = engine_on_host(report);
    const cuda::codec codec{engine, how};
    auto row = row_there(*engine, 6);
    std::vector<std::byte> bytes(how.encoded_size(n)), good(how.encoded_size(n));
    std::vector<float> here(n);
    codec.encode(pool, row.span(), good);

    report->fail_at = 0;
    codec.encode(pool, row.span(), bytes);
    auto read = how.decode(pool, bytes, here);
    REQUIRE_FALSE(read);
    CHECK(read.error().code == errc::non_finite);
    const auto lost = codec.decode(pool, good, row.span());
    REQUIRE_FALSE(lost);
    CHECK(lost.error().code == errc::device_lost);
    const auto told = engine->finish();
    REQUIRE_FALSE(told);
    CHECK(told.error().code == errc::device_lost);
    report->fail_at = -1;
    CHECK(same(row.span(), numbers(n, 6)));

    row[n / 2] = std::numeric_limits<float>::infinity();
    codec.encode(pool, row.span(), bytes);
    read = how.decode(pool, bytes, here);
    REQUIRE_FALSE(read);
    CHECK(read.error().code == errc::non_finite);
  });
}
