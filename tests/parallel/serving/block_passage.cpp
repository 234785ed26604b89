// SPDX-License-Identifier: Apache-2.0
#include <causeway/parallel/serving/block_passage.hpp>

#include <causeway/core/rng.hpp>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "support/catch.hpp"

namespace causeway::parallel {
namespace {

shared_bytes text(const std::string& s) {
  const auto* const at = reinterpret_cast<const std::byte*>(s.data());
  return std::make_shared<const std::vector<std::byte>>(at, at + s.size());
}
std::string read(const shared_bytes& b) {
  return b ? std::string{reinterpret_cast<const char*>(b->data()), b->size()} : std::string{"-"};
}

/// What blocks make of rows and gradients: they append their numbers.
std::string through(std::string rows, const nn::block_range& r) {
  for (std::int64_t b = r.first; b < r.last; ++b) rows += std::to_string(b);
  return rows;
}
std::string back_through(std::string gradient, const nn::block_range& r) {
  for (std::int64_t b = r.last; b > r.first; --b) gradient += std::to_string(b - 1);
  return gradient;
}

}  // namespace

TEST_CASE("block_passage: goes there over a chain and back with what went into each hop", "[parallel][fast]") {
  block_passage p{4, text("x")};
  CHECK(p.unrouted() == nn::block_range{0, 4});
  auto q = p.next({{7, {0, 3}}, {8, {3, 4}}});
  CHECK((q.hop == stage::span_hop{7, {0, 3}} && !q.backward && read(q.x) == "x"));
  p.took_output(q.hop, text("y"));
  q = p.next({{9, {3, 4}}});
  CHECK((q.hop.server == 9 && read(q.x) == "y"));
  p.took_output(q.hop, text("z"));
  REQUIRE(p.arrived());
  CHECK(read(p.outcome()) == "z");
  p.turn_back(text("dz"));
  CHECK_FALSE(p.arrived());
  CHECK(p.unrouted().size() == 0);
  q = p.next({});
  CHECK((q.hop == stage::span_hop{9, {3, 4}} && q.backward && read(q.x) == "y" && read(q.dy) == "dz"));
  p.took_gradient(text("dy"));
  q = p.next({});
  CHECK((q.hop.server == 7 && read(q.x) == "x" && read(q.dy) == "dy"));
  p.took_gradient(text("dx"));
  REQUIRE(p.arrived());
  CHECK(read(p.outcome()) == "dx");
}

TEST_CASE("block_passage: a hop lost on the way back is asked of a chain, whose last output is not needed",
          "[parallel][fast]") {
  block_passage p{4, text("x")};
  p.took_output(p.next({{7, {0, 4}}}).hop, text("y"));
  p.turn_back(text("dy"));
  CHECK(p.next({}).hop.server == 7);
  p.lost_gradient();
  CHECK(p.unrouted() == nn::block_range{0, 4});
  auto q = p.next({{8, {0, 2}}, {9, {2, 4}}});
  CHECK((q.hop.server == 8 && !q.backward && read(q.x) == "x"));
  p.took_output(q.hop, text("m"));
  q = p.next({{9, {2, 4}}});
  CHECK((q.hop.server == 9 && q.backward && read(q.x) == "m" && read(q.dy) == "dy"));
  p.took_gradient(text("dm"));
  q = p.next({});
  CHECK((q.hop.server == 8 && q.backward && read(q.x) == "x" && read(q.dy) == "dm"));
}

TEST_CASE("block_passage: whatever is lost and however chains are cut, what comes out is the same", "[parallel][fast]") {
  constexpr std::int64_t layers = 7;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    rng draw{seed};
    block_passage p{layers, text("x")};
    for (int steps = 0;; ++steps) {
      REQUIRE(steps < 2000);
      if (p.arrived()) {
        if (read(p.outcome()) != "x0123456") break;
        p.turn_back(text("d"));
        continue;
      }
      stage::span_chain chain;
      for (std::int64_t at = p.unrouted().first; at < p.unrouted().last;) {
        const auto to = at + 1 + static_cast<std::int64_t>(draw.below(static_cast<std::uint64_t>(p.unrouted().last - at)));
        chain.push_back({1 + draw.below(5), {at, to}});
        at = to;
      }
      const auto q = p.next(chain);
      const std::string x = through("x", {0, q.hop.blocks.first});
      CHECK(read(q.x) == x);
      if (draw.below(3) == 0) {
        if (q.backward) p.lost_gradient();
      } else if (q.backward) {
        p.took_gradient(text(back_through(read(q.dy), q.hop.blocks)));
      } else {
        p.took_output(q.hop, text(through(x, q.hop.blocks)));
      }
    }
    CHECK(read(p.outcome()) == "d6543210");
  }
}

}  // namespace causeway::parallel
