// SPDX-License-Identifier: Apache-2.0
#include <causeway/parallel/pipeline/pipeline_place.hpp>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "support/catch.hpp"

namespace causeway::parallel {
namespace {

using Catch::Matchers::Contains;
using peer_list = std::vector<net::peer_index>;

template <class T>
std::string refused(const result<T>& outcome) {
  return outcome ? std::string{} : outcome.error().text();
}

std::vector<nn::block_range> ranges(const pipeline_options& o, net::peer_index self, std::uint32_t peers,
                                    std::int64_t layers, std::uint32_t chunks = 1) {
  return part_of(o, place_in(o, self, peers).value(), layers, chunks).value().ranges(layers);
}

}  // namespace

TEST_CASE("pipeline place: by default consecutive peers make a pipeline", "[parallel][fast]") {
  const auto at = place_in({.ranks = 2}, 3, 6).value();
  CHECK(at.replica == 1);
  CHECK(at.rank == 1);
  CHECK(at.pipeline == peer_list{2, 3});
  CHECK(at.group == peer_list{1, 3, 5});
  const auto one = place_in({}, 3, 4).value();
  CHECK(one.pipeline == peer_list{0, 1, 2, 3});
  CHECK(one.group == peer_list{3});
}

TEST_CASE("pipeline place: a planner's placement is kept", "[parallel][fast]") {
  const pipeline_options o{.placement = {{3, 0}, {1, 2}}};
  const auto at = place_in(o, 2, 4).value();
  CHECK(at.replica == 1);
  CHECK(at.rank == 1);
  CHECK(at.pipeline == peer_list{1, 2});
  CHECK(at.group == peer_list{0, 2});
}

TEST_CASE("pipeline place: placements that leave somebody out or in twice are refused", "[parallel][fast]") {
  CHECK_THAT(refused(place_in({.ranks = 4}, 0, 6)), Contains("6 peers") && Contains("4 ranks"));
  CHECK_THAT(refused(place_in({.ranks = 8}, 0, 6)), Contains("8 ranks"));
  CHECK_THAT(refused(place_in({.placement = {{0, 1}, {2}}}, 0, 3)), Contains("equally many"));
  CHECK_THAT(refused(place_in({.placement = {{0, 1}}}, 0, 3)), Contains("exactly one place"));
  CHECK_THAT(refused(place_in({.placement = {{0, 1}, {1, 2}}}, 0, 4)), Contains("exactly one place"));
  CHECK_THAT(refused(place_in({.placement = {{0, 7}}}, 0, 2)), Contains("exactly one place"));
  CHECK_THAT(refused(place_in({}, 0, 0)), Contains("peers that come and go"));
}

TEST_CASE("pipeline part: blocks are spread evenly, or cut where asked", "[parallel][fast]") {
  CHECK(ranges({}, 0, 3, 8) == std::vector<nn::block_range>{{0, 2}});
  CHECK(ranges({}, 1, 3, 8) == std::vector<nn::block_range>{{2, 5}});
  CHECK(ranges({}, 2, 3, 8) == std::vector<nn::block_range>{{5, 8}});
  CHECK(ranges({.cuts = {6}}, 1, 2, 8) == std::vector<nn::block_range>{{6, 8}});
}

TEST_CASE("pipeline part: chunks lie as many stages apart as there are ranks", "[parallel][fast]") {
  CHECK(ranges({}, 0, 2, 8, 2) == std::vector<nn::block_range>{{0, 2}, {4, 6}});
  CHECK(ranges({}, 1, 2, 8, 2) == std::vector<nn::block_range>{{2, 4}, {6, 8}});
}

TEST_CASE("pipeline part: folded chunks and those of two ways lie mirrored, and are one range where they meet",
          "[parallel][fast]") {
  const auto held = [](std::uint32_t self, plan::stage_path path) {
    const auto at = place_in({}, self, 4).value();
    return std::pair{chunks_of({}, at, 8, 2, path).value(), part_of({}, at, 8, 2, path).value().ranges(8)};
  };
  using blocks = std::vector<nn::block_range>;
  CHECK(held(0, plan::stage_path::folded) == std::pair{blocks{{0, 1}, {7, 8}}, blocks{{0, 1}, {7, 8}}});
  CHECK(held(3, plan::stage_path::folded) == std::pair{blocks{{3, 4}, {4, 5}}, blocks{{3, 5}}});
  CHECK(held(0, plan::stage_path::two_ways) == std::pair{blocks{{0, 2}, {6, 8}}, blocks{{0, 2}, {6, 8}}});
  CHECK(held(2, plan::stage_path::two_ways) == std::pair{blocks{{4, 6}, {2, 4}}, blocks{{2, 6}}});
  CHECK(held(3, plan::stage_path::two_ways) == std::pair{blocks{{6, 8}, {0, 2}}, blocks{{0, 2}, {6, 8}}});
}

TEST_CASE("pipeline part: cuts that do not fit are refused with what would", "[parallel][fast]") {
  const auto at = place_in({}, 0, 4).value();
  CHECK_THAT(refused(part_of({}, at, 3)), Contains("3 blocks") && Contains("4 stages"));
  CHECK_THAT(refused(part_of({.cuts = {1, 2}}, at, 8)), Contains("one rising cut for every stage but the first"));
  CHECK_THAT(refused(part_of({.cuts = {3, 2, 5}}, at, 8)), Contains("rising"));
  CHECK_THAT(refused(part_of({.cuts = {2, 4, 8}}, at, 8)), Contains("rising"));
}

}  // namespace causeway::parallel
