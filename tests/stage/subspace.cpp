// SPDX-License-Identifier: Apache-2.0
#include <causeway/stage/subspace.hpp>

#include "stage/activation_checks.hpp"
#include "support/catch.hpp"

#include <causeway/compress/bf16.hpp>
#include <causeway/compress/block_int8.hpp>
#include <causeway/io/archive.hpp>

#include <cmath>
#include <cstring>

using namespace causeway;
using namespace activation_checks;
using stage::subspace;
using stage::subspace_basis;
using stage::subspace_options;

static_assert(subspace<compress::bf16>::name == "subspace<bf16,bf16>" && subspace<>::traits.uses_base);

namespace {

constexpr std::int64_t rows = 20, width = 64, rank = 8;
const subspace_options options{.rank = rank, .seed = 4};
const crossing forward{.edge = 1, .way = direction::forward, .rows = rows, .width = width, .sequences = 4, .seed = 5};
const crossing backward{.edge = 1, .way = direction::backward, .rows = rows, .width = width, .sequences = 4, .seed = 6};

/// Rows in the subspace, of a size of about one.
std::vector<float> inside(std::uint64_t seed) {
  thread_pool pool{1};
  scratch memory;
  const auto basis = subspace_basis::random(options.seed, width, rank);
  const auto z = normal(rows * rank, seed, 3);
  std::vector<float> x(rows * width);
  basis->expand(pool, memory, rows, z.data(), nullptr, x.data());
  return x;
}

template <class A>
std::vector<float> through(A& sender, A& receiver, const crossing& c, const std::vector<float>& values) {
  thread_pool pool{1};
  return decode(receiver, pool, c, encode(sender, pool, c, values));
}

}  // namespace

TEST_CASE("subspace: rank numbers a row travel, encoded as the inner codec does", "[stage][fast]") {
  REQUIRE(subspace<>{options}.most_bytes(forward) == rows * rank * 4);
  const subspace<compress::bf16, compress::block_int8> codec{options};
  REQUIRE(codec.most_bytes(forward) == rows * rank * 2);
  REQUIRE(codec.most_bytes(backward) == rows * rank + 4);
}

TEST_CASE("subspace: exact but for rounding where x - e lies in the subspace", "[stage][fast]") {
  subspace<> sender{options}, receiver{options};
  const auto x = inside(1);
  auto got = through(sender, receiver, forward, x);
  for (std::size_t i = 0; i < x.size(); ++i) REQUIRE(std::abs(got[i] - x[i]) < 4e-6F);

  const auto e = normal(x.size(), 2);  // anywhere
  auto shifted = x;
  for (std::size_t i = 0; i < x.size(); ++i) shifted[i] += e[i];
  crossing with_base = forward;
  with_base.base = e;
  got = through(sender, receiver, with_base, shifted);
  for (std::size_t i = 0; i < x.size(); ++i) REQUIRE(std::abs(got[i] - shifted[i]) < 4e-6F);
  got = through(sender, receiver, forward, shifted);  // without the base most of e is lost
  double lost = 0, size = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    lost += std::pow(static_cast<double>(got[i] - shifted[i]), 2);
    size += std::pow(static_cast<double>(e[i]), 2);
  }
  REQUIRE(lost / size > 0.8);
}

TEST_CASE("subspace: the backward way is the derivative of the forward way", "[stage][fast]") {
  subspace<> codec{options}, other{options};
  const auto x = normal(rows * width, 3), e = normal(rows * width, 4), g = normal(rows * width, 5);
  crossing with_base = forward, back = backward;
  with_base.base = e;
  back.base = e;  // must not matter
  const auto loss = [&](const std::vector<float>& at) {
    const auto y = through(codec, other, with_base, at);
    double sum = 0;
    for (std::size_t i = 0; i < y.size(); ++i) sum += static_cast<double>(y[i]) * static_cast<double>(g[i]);
    return sum;
  };
  const auto gradient = through(codec, other, back, g);
  for (const std::uint64_t seed : {10U, 11U, 12U}) {
    const auto way = normal(x.size(), seed);
    auto up = x, down = x;
    double expected = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      up[i] += 0.5F * way[i];
      down[i] -= 0.5F * way[i];
      expected += static_cast<double>(gradient[i]) * static_cast<double>(way[i]);
    }
    REQUIRE(std::abs(loss(up) - loss(down) - expected) < 1e-3);  // linear, so the step may be large
  }
}

TEST_CASE("subspace: a quantised inner codec adds its own error and no more", "[stage][fast]") {
  subspace<compress::block_int8> sender{options}, receiver{options};
  const auto x = inside(6);
  const auto got = through(sender, receiver, forward, x);
  double error = 0, size = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    error += std::pow(static_cast<double>(got[i] - x[i]), 2);
    size += std::pow(static_cast<double>(x[i]), 2);
  }
  REQUIRE(std::sqrt(error / size) < 0.02);
  REQUIRE(error > 0);
}

TEST_CASE("subspace: another basis, saved and loaded", "[stage][fast]") {
  thread_pool pool{1};
  subspace<> sender{options}, loaded{options};
  const auto next = subspace_basis::random(99, width, 5);
  sender.use(*next);
  REQUIRE(sender.most_bytes(forward) == rows * 5 * 4);
  const auto saved = io::to_bytes(sender);
  REQUIRE(saved);
  REQUIRE(io::from_bytes(*saved, loaded));
  const auto x = normal(rows * width, 7);
  const auto bytes = encode(sender, pool, forward, x);
  REQUIRE(encode(loaded, pool, forward, x) == bytes);
  REQUIRE(same_bits(decode(sender, pool, forward, bytes), decode(loaded, pool, forward, bytes)));
  REQUIRE(loaded.agreement() == sender.agreement());
  subspace<> first{options};
  REQUIRE(first.agreement() != sender.agreement());
  REQUIRE(first.agreement() == subspace<>{options}.agreement());
  REQUIRE(first.agreement() != subspace<>{{.rank = rank, .seed = 5}}.agreement());
  REQUIRE(decode_error(first, forward, bytes) == errc::protocol);
}

TEST_CASE("subspace: the same call again gives the same bytes, for every thread count", "[stage][fast]") {
  const crossing large{.rows = 300, .width = 256, .sequences = 3, .seed = 7};
  const auto x = normal(large.count(), 8);
  check_threads([] { return subspace<>{{.rank = 16}}; }, large, x);
  thread_pool pool{1};
  subspace<> codec{{.rank = 16}};
  const auto bytes = encode(codec, pool, large, x);
  codec.begin_step();
  REQUIRE(encode(codec, pool, large, x) == bytes);
}

TEST_CASE("subspace: more directions than the stream has, or a second width, is an error", "[stage][fast]") {
  thread_pool pool{1};
  subspace<> wide{{.rank = 65}}, codec{options};
  std::vector<std::byte> room(rows * 65 * 4);
  REQUIRE(wide.encode(pool, forward, normal(rows * width, 1), room).error().code == errc::invalid_argument);
  encode(codec, pool, forward, normal(rows * width, 1));
  crossing narrow = forward;
  narrow.width = 32;
  REQUIRE(codec.encode(pool, narrow, normal(rows * 32, 1), room).error().code == errc::invalid_argument);
}

TEST_CASE("subspace: what is not finite and hostile bytes are refused", "[stage][fast]") {
  const auto x = normal(rows * width, 9);
  const auto make = [] { return subspace<>{options}; };
  const auto make_int8 = [] { return subspace<compress::block_int8>{options}; };
  for (const crossing& c : {forward, backward}) {
    check_non_finite(make, c, x);
    check_non_finite(make_int8, c, x);
    check_hostile_bytes(make, c, x);
    check_hostile_bytes(make_int8, c, x);
  }

  thread_pool pool{1};
  subspace<> receiver{{.rank = 40}};
  encode(receiver, pool, forward, x);
  std::vector<float> z(rows * 40);
  for (std::size_t i = 0; i < z.size(); ++i) {  // finite coordinates that add up to more than there is
    z[i] = receiver.basis().vectors()[i % 40 * width] < 0 ? -3.4e38F : 3.4e38F;
  }
  std::vector<std::byte> bytes(receiver.most_bytes(forward));
  std::memcpy(bytes.data(), z.data(), bytes.size());
  REQUIRE(decode_error(receiver, forward, bytes) == errc::non_finite);
}
