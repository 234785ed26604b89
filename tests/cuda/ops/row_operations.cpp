// SPDX-License-Identifier: Apache-2.0
#include <causeway/cuda/ops/row_operations.hpp>

#include <causeway/compress/block_int8.hpp>
#include <causeway/cuda/backend.hpp>
#include <causeway/kernels/elementwise.hpp>

#include "cuda/body_support.hpp"
#include "cuda/host_engine.hpp"
#include "cuda/row_case.hpp"
#include "cuda/sparse_case.hpp"
#include "support/catch.hpp"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

using namespace causeway;
using causeway_test::engine_on_host;
using causeway_test::numbers;

namespace {

constexpr std::int64_t count = 1'003;

using row = std::vector<float, source_allocator<float>>;
row row_of(cuda::engine& e, std::uint64_t seed) {
  const auto values = numbers(count, seed);
  return row{values.begin(), values.end(), source_allocator<float>{cuda::memory_of(e)}};
}
bool same(const row& a, const std::vector<float>& b) { return std::equal(a.begin(), a.end(), b.begin(), b.end()); }

}  // namespace

TEST_CASE("cuda rows: an engine knows what lies in its memory", "[cuda][fast]") {
  const auto engine = engine_on_host();
  const std::vector<float> here(8);
  CHECK_FALSE(engine->holds(here.data(), 4));
  const float* gone = nullptr;
  {
    const row a = row_of(*engine, 1), b = row_of(*engine, 2);
    for (const row* r : {&a, &b}) {
      CHECK(engine->holds(r->data(), count * 4));
      CHECK(engine->holds(r->data() + 7, 4));
      CHECK(engine->holds(r->data() + count, 0));
      CHECK_FALSE(engine->holds(r->data(), count * 4 + 1));
      CHECK_FALSE(engine->holds(r->data() + 1, count * 4));
      CHECK_FALSE(engine->holds(r->data() - 1, 4));
      CHECK_FALSE(engine->holds(r->data() + 1, ~std::size_t{0}));
    }
    CHECK_FALSE(engine->holds(here.data(), 4));
    gone = a.data();
  }
  CHECK_FALSE(engine->holds(gone, 4));
}

TEST_CASE("cuda rows: differences and multiples have the CPU's bits, on the device and across", "[cuda][fast]") {
  thread_pool pool{1};
  const auto report = std::make_shared<causeway_test::queue_report>();
  cuda::backend backend{engine_on_host(report)};
  auto a = row_of(backend.ops(), 1), b = row_of(backend.ops(), 2), y = row_of(backend.ops(), 3);
  auto here_a = numbers(count, 1), here_b = numbers(count, 2), here_y = numbers(count, 3);
  REQUIRE(backend.rows().subtract(y, a, b));
  kernels::subtract(pool, here_y.data(), here_a.data(), here_b.data(), count);
  CHECK(same(y, here_y));
  REQUIRE(backend.rows().scale(y, 0.37F));
  kernels::scale(pool, here_y.data(), 0.37F, count);
  CHECK(same(y, here_y));
  REQUIRE(backend.rows().copy(y, a));
  CHECK(same(y, here_a));

  report->fail_at = 0;  // what the device does fails, what the host does works
  const auto lost = backend.rows().subtract(y, a, b);
  REQUIRE_FALSE(lost);
  CHECK(lost.error().code == errc::device_lost);
  CHECK(same(y, here_a));
  report->fail_at = 0;
  REQUIRE(backend.rows().subtract(y, a, here_b));
  kernels::subtract(pool, here_y.data(), here_a.data(), here_b.data(), count);
  CHECK(same(y, here_y));
  REQUIRE(backend.rows().copy(here_a, y));
  CHECK(here_a == here_y);
}

TEST_CASE("cuda rows: nothing runs behind an error until it was told", "[cuda][fast]") {
  thread_pool pool{1};
  const auto report = std::make_shared<causeway_test::queue_report>();
  const auto engine = engine_on_host(report);
  auto a = row_of(*engine, 1), y = row_of(*engine, 2);
  const compress::block_int8 how;
  std::vector<std::byte> bytes(how.encoded_size(count)), untouched = bytes;
  report->fail_at = 1;
  engine->scale(y.data(), 2.0F, count);
  engine->scale(y.data(), 2.0F, count);  // this one fails
  report->fail_at = -1;
  engine->scale(y.data(), 2.0F, count);
  CHECK_FALSE(engine->encode(how, y.data(), count, bytes.data()));
  CHECK(bytes == untouched);
  how.encode(pool, numbers(count, 3), bytes);
  const auto refused = engine->decode(how, bytes, y.data(), count, false, 1.0F);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == errc::device_lost);
  auto once = numbers(count, 2);
  kernels::scale(pool, once.data(), 2.0F, count);
  CHECK(same(y, once));
  CHECK_FALSE(engine->finish());
  CHECK(engine->decode(how, bytes, y.data(), count, false, 1.0F));
  CHECK(engine->finish());
}

TEST_CASE("cuda rows: codecs, outer steps and hashes of rounds have the CPU's bits", "[cuda][fast]") {
  causeway_test::compare_rounds_with_cpu(engine_on_host(), 20'001);
  causeway_test::sparse_case::compare_all_with_cpu(engine_on_host());
}
