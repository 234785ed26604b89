// SPDX-License-Identifier: Apache-2.0
#include <causeway/stage/layout.hpp>

#include <cstdint>
#include <vector>

#include "support/catch.hpp"

namespace causeway {
namespace {

using stage::assignment;
using stage::layout;
using stage::replica;

layout two_replicas() {
  return {{replica{{assignment{1, {0, 2}}, assignment{2, {2, 5}}}, 3}, replica{{assignment{7, {0, 5}}}, 1}}};
}

}  // namespace

TEST_CASE("layout: who holds a block, and what a peer is assigned", "[stage][fast]") {
  const layout l = two_replicas();
  REQUIRE(l.check(5, 4));
  CHECK((l.holders(0) == std::vector<std::uint64_t>{1, 7}));
  CHECK((l.holders(4) == std::vector<std::uint64_t>{2, 7}));
  layout::place at;
  REQUIRE(l.find(7, &at) != nullptr);
  CHECK(at.replica == 1);
  CHECK(at.rank == 0);
  CHECK(l.find(3) == nullptr);
  CHECK(l.first_micro_batch(0) == 0);
  CHECK(l.first_micro_batch(1) == 3);
}

TEST_CASE("layout: what is kept besides what is computed counts as held", "[stage][fast]") {
  layout l = two_replicas();
  l.replicas[0].assignments[0].keeps = {{0, 5}};
  REQUIRE(l.check(5, 4));
  CHECK((l.holders(4) == std::vector<std::uint64_t>{1, 2, 7}));
  l.replicas[0].assignments[0].keeps = {{0, 1}};
  CHECK(l.check(5, 4).error().message.find("does not hold") != std::string::npos);
}

TEST_CASE("layout: gaps, overlaps, two assignments of a peer and lost micro-batches are found", "[stage][fast]") {
  const auto broken = [](auto&& change) {
    layout l = two_replicas();
    change(l);
    return !l.check(5, 4);
  };
  CHECK_FALSE(broken([](layout&) {}));
  CHECK(broken([](layout& l) { l.replicas[0].assignments[1].computes.first = 3; }));
  CHECK(broken([](layout& l) { l.replicas[0].assignments[1].computes.first = 1; }));
  CHECK(broken([](layout& l) { l.replicas[1].assignments[0].computes.last = 4; }));
  CHECK(broken([](layout& l) { l.replicas[1].assignments[0].peer = 2; }));
  CHECK(broken([](layout& l) { l.replicas[1].micro_batches = 2; }));
  CHECK(broken([](layout& l) { l.replicas.clear(); }));
}

TEST_CASE("layout: a stage without a peer is nobody's, and its micro-batches take a detour", "[stage][fast]") {
  layout l{{{{{5, {0, 2}}, {6, {2, 5}}}, 2}, {{{7, {0, 2}}, {stage::nobody, {2, 5}}}, 2}, {{{8, {0, 2}}, {9, {2, 5}}}, 1}}};
  REQUIRE(l.check(5, 5));
  CHECK(l.has_unassigned());
  CHECK((l.assigned() == std::vector<std::uint64_t>{5, 6, 7, 8, 9}));
  CHECK((l.holders(2) == std::vector<std::uint64_t>{6, 9}));
  CHECK((l.routes() == std::vector<std::vector<std::uint32_t>>{{0, 1}, {2, 1}, {3, 4}, {0, 1}, {2, 4}}));
  CHECK_FALSE(two_replicas().has_unassigned());
}

TEST_CASE("layout: a peer computes its replica's micro-batches, and those whose detour leads through it", "[stage][fast]") {
  using counts = std::vector<std::uint32_t>;
  layout l{{{{{5, {0, 2}}, {6, {2, 5}}}, 3}, {{{7, {0, 2}}, {stage::nobody, {2, 5}}}, 2}, {{{8, {0, 2}}, {9, {2, 5}}}, 2}}};
  REQUIRE(l.check(5, 7));
  CHECK(l.micro_batches_at(0) == counts{3, 2, 2});
  CHECK(l.micro_batches_at(1) == counts{4, 0, 3});
  l.replicas[1].assignments[1].peer = 10;
  CHECK(l.micro_batches_at(1) == counts{3, 2, 2});
  const layout kept{{{{{5, {0, 2}, {{0, 5}}}, {stage::nobody, {2, 5}}}, 4}}};  // by the one before it
  REQUIRE(kept.check(5, 4));
  CHECK(kept.micro_batches_at(1) == counts{4});
}

TEST_CASE("layout: a replica may lack a peer only where somebody has the stage, and replicas are alike", "[stage][fast]") {
  layout l{{{{{5, {0, 2}}, {6, {2, 5}}}, 2}, {{{7, {0, 2}}, {stage::nobody, {2, 5}}}, 2}}};
  REQUIRE(l.check(5, 4));
  layout unlike = l;
  unlike.replicas[1].assignments[0].computes.last = unlike.replicas[1].assignments[1].computes.first = 3;
  CHECK(unlike.check(5, 4).error().message.find("alike") != std::string::npos);
  l.replicas[0].assignments[1].peer = stage::nobody;
  CHECK(l.check(5, 4).error().message.find("nobody") != std::string::npos);
}

TEST_CASE("layout: shares and cuts are even", "[stage][fast]") {
  CHECK((stage::even_shares(8, 3) == std::vector<std::uint32_t>{3, 3, 2}));
  CHECK((stage::even_shares(1, 2) == std::vector<std::uint32_t>{1, 0}));
  CHECK((stage::even_cut(5, 2) == std::vector<nn::block_range>{{0, 2}, {2, 5}}));
}

}  // namespace causeway
