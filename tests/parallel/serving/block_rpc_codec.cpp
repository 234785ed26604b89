// SPDX-License-Identifier: Apache-2.0
#include <causeway/parallel/serving/block_rpc_codec.hpp>

#include <causeway/compress/block_int8.hpp>
#include <causeway/core/rng.hpp>

#include <cstdint>
#include <limits>
#include <memory>
#include <stdexcept>
#include <vector>

#include "support/catch.hpp"

namespace causeway::parallel {
namespace {

using int8 = stage::coded<compress::block_int8>;

template <class R>
auto valued(R&& outcome) {
  if (!outcome) throw std::runtime_error{outcome.error().text()};
  return std::move(*outcome);
}
std::vector<float> drawn(std::size_t count, std::uint64_t seed) {
  rng draw{seed};
  std::vector<float> all(count);
  for (float& v : all) v = draw.normal();
  return all;
}

/// A query from five values to five, and a value from five to three.
const nn::map_sizes maps{{{5, 5}, {}, {5, 3}, {}, {}, {}, {}}};

/// Six rows of five values, with two rows of prompts and adapters of rank 2 for each of three blocks.
block_wire::request usual(bool backward) {
  return {1, backward ? std::uint8_t{1} : std::uint8_t{0}, {2, 5}, 2, 3, 2, 0, {2, 0b101}};
}
constexpr std::size_t tuned = 3 * (2 * 5 + 2 * (5 + 5 + 5 + 3));

template <class Codec>
std::vector<std::byte> request_for(block_rpc_codec<Codec>& codec, thread_pool& pool, block_wire::request& r) {
  const auto x = valued(codec.encode_rows(pool, r, stage::direction::forward, drawn(30, 1)));
  std::vector<std::byte> dy;
  if (r.backward != 0) dy = valued(codec.encode_rows(pool, r, stage::direction::backward, drawn(30, 2)));
  r.x_bytes = static_cast<std::uint32_t>(x.size());
  return codec.request_data(x, dy, drawn(tuned, 3));
}

}  // namespace

TEST_CASE("block_rpc_codec: requests and answers come back, exactly with the plain codec", "[parallel][fast]") {
  thread_pool pool;
  block_rpc_codec<stage::plain> codec{stage::plain{}, 5, maps};
  for (const bool backward : {false, true}) {
    block_wire::request r = usual(backward);
    const auto data = request_for(codec, pool, r);
    CHECK(data.size() == codec.request_bytes(r));
    const auto q = valued(codec.read_request(pool, r, data));
    CHECK(q.x == drawn(30, 1));
    CHECK(q.dy == (backward ? drawn(30, 2) : std::vector<float>{}));
    CHECK(q.tuned == drawn(tuned, 3));
    const auto d_tuned = backward ? drawn(tuned, 5) : std::vector<float>{};
    const auto bytes = valued(codec.write_answer(pool, r, drawn(30, 4), d_tuned));
    CHECK(bytes->size() == codec.answer_bytes(r));
    const auto a = valued(codec.read_answer(pool, r, bytes));
    CHECK(a.values == drawn(30, 4));
    CHECK(a.d_tuned == d_tuned);
    CHECK(a.rows->size() == 30 * 4);
  }
}

TEST_CASE("block_rpc_codec: with int8 an answer's rows are the next request's, byte for byte", "[parallel][fast]") {
  thread_pool pool;
  block_rpc_codec<int8> codec{int8{}, 5, maps};
  block_wire::request r = usual(false);
  const auto bytes = valued(codec.write_answer(pool, r, drawn(30, 4), {}));
  const auto a = valued(codec.read_answer(pool, r, bytes));
  CHECK(a.rows == bytes);
  r.x_bytes = static_cast<std::uint32_t>(a.rows->size());
  const auto q = valued(codec.read_request(pool, r, codec.request_data(*a.rows, {}, drawn(tuned, 3))));
  CHECK(q.x == a.values);
  CHECK(a.rows->size() < 40);
}

TEST_CASE("block_rpc_codec: other lengths and values that are not finite are refused", "[parallel][fast]") {
  thread_pool pool;
  const auto check = [&](auto codec) {
    for (const bool backward : {false, true}) {
      block_wire::request r = usual(backward);
      const auto data = request_for(codec, pool, r);
      REQUIRE(codec.read_request(pool, r, data));
      for (std::size_t n = 0; n < data.size(); ++n) {
        CHECK_FALSE(codec.read_request(pool, r, std::span{data}.first(n)));
        const auto cut =
            std::make_shared<const std::vector<std::byte>>(data.begin(), data.begin() + static_cast<std::ptrdiff_t>(n));
        if (n != codec.answer_bytes(r)) CHECK_FALSE(codec.read_answer(pool, r, cut));
      }
      for (const std::uint32_t wrong : {r.x_bytes - 1, r.x_bytes + 1, 0U, UINT32_MAX}) {
        block_wire::request other = r;
        other.x_bytes = wrong;
        CHECK_FALSE(codec.read_request(pool, other, data));
      }
      auto bad = data;
      for (std::size_t i = bad.size() - 4; i < bad.size(); ++i) bad[i] = std::byte{0xFF};
      const auto outcome = codec.read_request(pool, r, bad);
      REQUIRE_FALSE(outcome);
      CHECK(outcome.error().code == errc::non_finite);
    }
  };
  check(block_rpc_codec<stage::plain>{stage::plain{}, 5, maps});
  check(block_rpc_codec<int8>{int8{}, 5, maps});
}

TEST_CASE("block_rpc_codec: runs, models and codecs are told apart", "[parallel][fast]") {
  const auto usual_run = span_run(1, 2, stage::plain{});
  CHECK(usual_run != span_run(2, 2, stage::plain{}));
  CHECK(usual_run != span_run(1, 3, stage::plain{}));
  CHECK(usual_run != span_run(1, 2, int8{}));
}

}  // namespace causeway::parallel
