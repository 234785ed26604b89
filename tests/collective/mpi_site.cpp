// SPDX-License-Identifier: Apache-2.0
#include <causeway/collective/mpi_site.hpp>

#include <causeway/core/rng.hpp>

#include <bit>
#include <cmath>
#include <limits>
#include <string>

#include "support/mpi.hpp"

using namespace causeway;
using namespace causeway::collective;
using support::job;

namespace {

std::shared_ptr<mpi_site> open_site(const mpi_site_options& options = {}) {
  auto opened = mpi_site::open(job(), options);
  REQUIRE(opened);
  return *opened;
}

/// What a rank gives: known to all.
std::vector<float> values_of(std::uint32_t rank, std::size_t count) {
  std::vector<float> values(count);
  rng random{rank + 3};
  for (float& v : values) v = static_cast<float>(random.normal());
  return values;
}

/// In the order of the ranks, as all transports add.
std::vector<float> sum_in_order(std::size_t count, float factor) {
  std::vector<float> all = values_of(0, count);
  for (std::uint32_t r = 1; r < job().size(); ++r) {
    const auto more = values_of(r, count);
    for (std::size_t i = 0; i < count; ++i) all[i] += more[i];
  }
  for (float& v : all) v *= factor;
  return all;
}

float largest_difference(const std::vector<float>& a, const std::vector<float>& b) {
  float most = 0;
  for (std::size_t i = 0; i < a.size(); ++i) most = std::max(most, std::fabs(a[i] - b[i]));
  return most;
}

/// Whether all ranks hold these bits.
bool same_everywhere(mpi_site& s, const std::vector<float>& mine) {
  std::vector<float> theirs = mine;
  REQUIRE(s.broadcast(s.size() - 1, theirs));
  const auto all = s.all_of(theirs == mine);
  REQUIRE(all);
  return *all;
}

}  // namespace

TEST_CASE("mpi site: a mean is the mean, and the same bits on all ranks, whichever way it is made", "[collective]") {
  const auto s = open_site();
  CHECK(s->size() == job().size());
  CHECK(s->rank() == job().rank());
  const auto way = GENERATE(mpi_way::all_reduce, mpi_way::in_parts, mpi_way::messages, mpi_way::direct, mpi_way::shared);
  s->always(way);
  for (const std::size_t count : {std::size_t{1}, std::size_t{3}, std::size_t{1000}, std::size_t{300'007}}) {
    INFO(to_string(way) << " of " << count);
    auto mine = values_of(job().rank(), count);
    const auto expected = sum_in_order(count, 1.0F / static_cast<float>(job().size()));
    REQUIRE(s->mean(mine));
    CHECK(largest_difference(mine, expected) < 1e-6F);
    const bool in_order =
        way == mpi_way::messages || way == mpi_way::shared || (way == mpi_way::direct && count * sizeof(float) <= 16384);
    if (in_order) CHECK((mine == expected));
    CHECK(same_everywhere(*s, mine));
  }
}

TEST_CASE("mpi site: infinity stays, or is an error", "[collective]") {
  const auto way = GENERATE(mpi_way::all_reduce, mpi_way::in_parts, mpi_way::direct, mpi_way::shared);
  const auto s = open_site();
  s->always(way);
  std::vector<float> mine(100, 1.0F);
  if (job().rank() == 1) mine[70] = std::numeric_limits<float>::infinity();
  REQUIRE(s->mean(mine));
  CHECK(std::isinf(mine[70]));
  CHECK(mine[71] == 1.0F);
}

TEST_CASE("mpi site: a sum that is begun goes on beside other work, in f32 and bf16", "[collective]") {
  const auto way = GENERATE(mpi_way::all_reduce, mpi_way::in_parts, mpi_way::direct, mpi_way::shared);
  const auto s = open_site();
  s->always(way);
  constexpr std::size_t count = 100'003;
  auto mine = values_of(job().rank(), count);
  REQUIRE(s->begin_sum(mine));
  std::size_t looks = 0;
  while (!s->done()) ++looks;
  REQUIRE(s->finish());
  CHECK(largest_difference(mine, sum_in_order(count, 1)) < 1e-5F);
  CHECK(same_everywhere(*s, mine));

  std::vector<bf16> halves;
  for (const float v : values_of(job().rank(), count)) halves.emplace_back(v);
  REQUIRE(s->begin_sum(halves));
  REQUIRE(s->finish());
  std::vector<float> found;
  for (const bf16 v : halves) found.push_back(static_cast<float>(v));
  CHECK(largest_difference(found, sum_in_order(count, 1)) < 0.15F);  // sums up to 10, eight bits, an addition for each rank
  CHECK(same_everywhere(*s, found));
}

TEST_CASE("mpi site: a small sum sent to all has the bits of all transports, begun or not", "[collective]") {
  const auto s = open_site();
  s->always(mpi_way::direct);
  for (const std::size_t count : {std::size_t{1}, std::size_t{4096}, std::size_t{2}, std::size_t{4097}}) {
    auto mine = values_of(job().rank(), count);
    REQUIRE(s->begin_sum(mine));
    while (!s->done()) continue;
    REQUIRE(s->finish());
    if (count <= 4096) CHECK((mine == sum_in_order(count, 1)));
    CHECK(same_everywhere(*s, mine));
  }
  std::vector<float> again(7, 1.0F);
  for (int i = 0; i < 100; ++i) REQUIRE(s->mean(again));  // rounds follow each other without a meeting
  CHECK(again == std::vector<float>(7, 1.0F));
}

TEST_CASE("mpi site: bf16 sums of whole numbers are exact", "[collective]") {
  const auto s = open_site();
  std::vector<bf16> mine(50, bf16{static_cast<float>(job().rank() + 1)});
  REQUIRE(s->begin_sum(mine));
  REQUIRE(s->finish());
  const auto n = static_cast<float>(job().size());
  for (const bf16 v : mine) CHECK(static_cast<float>(v) == n * (n + 1) / 2);
}

TEST_CASE("mpi site: all agree only if everybody does", "[collective]") {
  const auto s = open_site();
  CHECK(s->all_of(true).value());
  CHECK_FALSE(s->all_of(job().rank() != 1).value());
}

TEST_CASE("mpi site: choices of another time are taken, for means and broadcasts", "[collective]") {
  const auto s = open_site();
  const bool messages = GENERATE(false, true);
  s->choose({{.up_to = 4096, .way = mpi_way::in_parts, .broadcasts_messages = messages},
             {.up_to = 16384, .way = mpi_way::messages, .broadcasts_messages = !messages}});
  CHECK(s->way_of(4096) == mpi_way::in_parts);
  CHECK(s->way_of(4100) == mpi_way::messages);
  for (const std::size_t count : {std::size_t{1000}, std::size_t{200'000}}) {
    for (std::uint32_t from = 0; from < s->size(); ++from) {
      auto mine = values_of(job().rank(), count);
      REQUIRE(s->broadcast(from, mine));
      CHECK((mine == values_of(from, count)));
    }
    auto mine = values_of(job().rank(), count);
    REQUIRE(s->mean(mine));
    CHECK(largest_difference(mine, sum_in_order(count, 1.0F / static_cast<float>(job().size()))) < 1e-6F);
  }
  const auto ordered = open_site({.same_bits = true});
  ordered->choose({{.up_to = 4096, .way = mpi_way::all_reduce}});
  CHECK(ordered->shares_memory());
  CHECK(ordered->way_of(1) == mpi_way::shared);
}

TEST_CASE("mpi site: the ways are timed once, and all ranks choose alike", "[collective]") {
  const auto s = open_site({.measure_up_to = std::size_t{1} << 20U});
  REQUIRE(s->choices().size() == 6);
  std::vector<float> chosen;
  for (const auto& c : s->choices()) {
    CHECK(s->way_of(c.up_to) == c.way);
    for (int w = 0; w < 3; ++w) CHECK((c.took[w] > 0 && c.took[w] < 60));
    CHECK((c.took[3] > 0) == (c.up_to <= 16384));  // all to all: small ones alone
    CHECK((c.took[4] > 0 && c.took[4] < 60));
    for (const double took : c.broadcast_took) CHECK((took > 0 && took < 60));
    CHECK(c.took[static_cast<std::size_t>(c.way)] <= c.took[4]);
    CHECK((!c.broadcasts_messages || c.broadcast_took[1] < c.broadcast_took[0]));
    chosen.push_back(static_cast<float>(c.way));
    chosen.push_back(c.broadcasts_messages ? 1.0F : 0.0F);
  }
  CHECK(s->way_of(std::size_t{1} << 30U) == s->choices().back().way);
  CHECK(same_everywhere(*s, chosen));
  CHECK(open_site({.measure_up_to = 1000, .same_bits = true})->way_of(1) == mpi_way::shared);
}
