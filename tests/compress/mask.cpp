// SPDX-License-Identifier: Apache-2.0
#include <causeway/compress/mask.hpp>

#include "compress/heavy_tails.hpp"
#include "compress/message_checks.hpp"
#include "support/catch.hpp"

#include <causeway/compress/none.hpp>
#include <causeway/compress/sparse.hpp>

#include <algorithm>

using namespace causeway;
using namespace causeway::compress;

namespace {

template <class S>
std::vector<std::uint32_t> selected(const S& sparsifier, const message_context& ctx, std::size_t n) {
  std::vector<std::uint32_t> kept;
  std::vector<std::byte> room(8);
  sparsifier.select(ctx, std::vector<float>(n), kept, room);
  return kept;
}

std::size_t in_both(const std::vector<std::uint32_t>& a, const std::vector<std::uint32_t>& b) {
  std::vector<std::uint32_t> both;
  std::set_intersection(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(both));
  return both.size();
}

}  // namespace

TEST_CASE("masks: a permutation of any length is one", "[compress][fast]") {
  for (const std::uint64_t n : {1U, 2U, 3U, 5U, 16U, 17U, 100U, 1000U, 4096U, 5001U}) {
    const compress::detail::seeded_permutation permutation{n, 42};
    std::vector<int> hit(n);
    for (std::uint64_t i = 0; i < n; ++i) {
      REQUIRE(permutation(i) < n);
      ++hit[permutation(i)];
    }
    CHECK(std::all_of(hit.begin(), hit.end(), [](int h) { return h == 1; }));
  }
}

TEST_CASE("masks: golden coordinates, which all versions and machines must draw", "[compress][fast]") {
  thread_pool pool{1};
  const shared_mask mask{{.share = 0.005}};
  CHECK(selected(mask, {.pool = pool, .seed = 1}, 1000) == std::vector<std::uint32_t>{252, 280, 295, 768, 840});
  const shared_mask turns{{.share = 0.2, .order = mask_order::sequential, .seed = 3}};
  CHECK(selected(turns, {.pool = pool, .round = 7}, 20) == std::vector<std::uint32_t>{1, 3, 6, 17});
  CHECK(selected(random_k{{.share = 0.004}}, {.pool = pool, .own_seed = 9}, 1000) ==
        std::vector<std::uint32_t>{587, 594, 833, 860});
}

TEST_CASE("masks: equal for equal seeds whatever the peer, thread count and values, different otherwise",
          "[compress][fast]") {
  thread_pool alone{1}, three{3};
  const auto order = GENERATE(mask_order::independent, mask_order::sequential, mask_order::partitions);
  const shared_mask mask{{.share = 0.05, .order = order, .seed = 11}};
  const std::size_t n = 100000;
  const auto a = selected(mask, {.pool = alone, .seed = 5, .own_seed = 1, .round = 3}, n);
  CHECK(a.size() == 5000);
  CHECK(selected(mask, {.pool = three, .seed = 5, .own_seed = 2, .round = 3}, n) == a);
  const auto b = order == mask_order::independent ? selected(mask, {.pool = alone, .seed = 6, .round = 3}, n)
                                                  : selected(mask, {.pool = alone, .seed = 5, .round = 4}, n);
  CHECK(in_both(a, b) < 400);  // 250 expected of independent ones, none of parts of one shuffle
  const shared_mask other{{.share = 0.05, .order = order, .seed = 12}};
  const auto c = selected(other, {.pool = alone, .seed = 5, .round = 3}, n);
  CHECK((c == a) == (order == mask_order::independent));
}

TEST_CASE("masks: turns cover every value once in a cycle", "[compress][fast]") {
  thread_pool pool{1};
  const auto order = GENERATE(mask_order::sequential, mask_order::partitions);
  for (const std::size_t n : {0U, 1U, 3U, 19U, 20U, 21U, 1003U}) {
    const shared_mask mask{{.share = 0.05, .order = order}};
    REQUIRE(mask.cycle() == 20);
    for (const std::uint64_t start : {0U, 20U, 4000U}) {
      std::vector<int> times(n);
      for (std::uint64_t round = start; round < start + 20; ++round) {
        const message_context ctx{.pool = pool, .seed = round * 31, .round = round};
        const auto kept = selected(mask, ctx, n);
        CHECK(kept.size() == mask.most_kept(ctx, n));
        CHECK(kept.size() <= n / 20 + 1);
        for (const std::uint32_t i : kept) ++times[i];
      }
      CHECK(std::all_of(times.begin(), times.end(), [](int t) { return t == 1; }));
    }
  }
}

TEST_CASE("masks: sequential repeats itself after a cycle, partitions do not", "[compress][fast]") {
  thread_pool pool{1};
  const shared_mask sequential{{.share = 0.1, .order = mask_order::sequential}};
  const shared_mask partitions{{.share = 0.1, .order = mask_order::partitions}};
  const message_context first{.pool = pool, .round = 4}, next{.pool = pool, .round = 14};
  CHECK(selected(sequential, first, 5000) == selected(sequential, next, 5000));
  CHECK(in_both(selected(partitions, first, 5000), selected(partitions, next, 5000)) < 90);
}

TEST_CASE("masks: all values are drawn equally often, and pairs as often as chance has it", "[compress][fast]") {
  thread_pool pool{1};
  const std::size_t n = 300;
  const shared_mask mask{{.share = 0.1}};
  const int draws = 4000;
  std::vector<int> times(n);
  int neighbours = 0;
  for (int draw = 0; draw < draws; ++draw) {
    const auto kept = selected(mask, {.pool = pool, .seed = static_cast<std::uint64_t>(draw)}, n);
    REQUIRE(kept.size() == 30);
    for (std::size_t i = 0; i < kept.size(); ++i) {
      ++times[kept[i]];
      if (i > 0 && kept[i] == kept[i - 1] + 1) ++neighbours;
    }
  }
  double chi_squared = 0;  // 299 degrees of freedom, each cell's variance 0.9 of its mean: 269 ± 22
  for (const int t : times) chi_squared += (t - 400.0) * (t - 400.0) / 400.0;
  CHECK(chi_squared > 269 - 5 * 22);
  CHECK(chi_squared < 269 + 5 * 22);
  CHECK(neighbours == Approx(299.0 * 30 * 29 / (300.0 * 299) * draws).epsilon(0.03));
}

TEST_CASE("masks: a share of a row is to the nearest value, and never nothing", "[compress][fast]") {
  using compress::detail::count_of_share;
  CHECK(count_of_share(0.005, 1000) == 5);
  CHECK(count_of_share(0.005, 10) == 1);
  CHECK(count_of_share(0.005, 0) == 0);
  CHECK(count_of_share(0.25, 10) == 3);  // 2.5
  CHECK(count_of_share(1, 77) == 77);
}

TEST_CASE("masks: random k sends its seed, and a reader follows any", "[compress][fast]") {
  thread_pool pool{1};
  const random_k sparsifier{{.share = 0.02}};
  const message_context ctx{.pool = pool, .own_seed = 0x0123456789ABCDEF};
  std::vector<std::uint32_t> sent, found;
  std::vector<std::byte> room(8);
  REQUIRE(sparsifier.select(ctx, std::vector<float>(5000), sent, room) == 8);
  CHECK(codec_checks::as_ints(room) == std::vector<int>{0xEF, 0xCD, 0xAB, 0x89, 0x67, 0x45, 0x23, 0x01});
  const message_context another{.pool = pool, .own_seed = 4};
  REQUIRE(sparsifier.read(another, room, 5000, found));
  CHECK(found == sent);
  CHECK(sent.size() == 100);
  CHECK(in_both(sent, selected(sparsifier, another, 5000)) < 15);
  CHECK(sparsifier.read(ctx, std::span{room}.first(7), 5000, found).error().code == errc::protocol);
  room.assign(8, std::byte{0xFF});
  REQUIRE(sparsifier.read(ctx, room, 5000, found));
  CHECK(found.size() == 100);
}

TEST_CASE("masks: options that cannot work are named", "[compress][fast]") {
  CHECK(validate(shared_mask_options{.share = 1}));
  CHECK(validate(shared_mask_options{.share = 0}).error().code == errc::invalid_argument);
  CHECK_FALSE(validate(shared_mask_options{.share = 1.01}));
  CHECK_FALSE(validate(shared_mask_options{.order = static_cast<mask_order>(3)}));
  CHECK_FALSE(validate(random_k_options{.share = std::numeric_limits<double>::quiet_NaN()}));
}

namespace {

/// What of |x|² a mask loses in this round.
template <class S>
double lost_in(const S& mask, const std::vector<float>& x, std::uint64_t round) {
  thread_pool pool{1};
  const message_context ctx{.pool = pool, .seed = 70 + round, .own_seed = 900 + round, .round = round};
  const sparse<no_transform, S, none> codec{{}, mask};
  return heavy_tails::lost(x, message_checks::trip_of(codec, ctx)(x));
}

}  // namespace

TEST_CASE("masks: contract in the mean, by their share, whatever the tails; never is more lost than was put in",
          "[compress][fast]") {
  constexpr int draws = 400;
  for (const auto& [name, draw] : heavy_tails::all()) {
    INFO(name);
    const auto x = draw(1000, 3);
    double squares = 0, fourth = 0, shared = 0, own = 0, most = 0;
    for (const float v : x) squares += std::pow(static_cast<double>(v), 2), fourth += std::pow(static_cast<double>(v), 4);
    for (std::uint64_t round = 0; round < draws; ++round) {
      const double a = lost_in(shared_mask{{.share = 0.1}}, x, round), b = lost_in(random_k{{.share = 0.1}}, x, round);
      shared += a / draws, own += b / draws, most = std::max({most, a, b});
    }
    const double deviation = std::sqrt(0.1 * 0.9 * fourth / draws) / squares;  // of the mean over the draws
    CHECK(std::abs(shared - 0.9) < 4 * deviation);
    CHECK(std::abs(own - 0.9) < 4 * deviation);
    CHECK(most <= 1.0);
  }
}

TEST_CASE("masks: in turns all of a row is sent once in a cycle", "[compress][fast]") {
  for (const auto order : {mask_order::sequential, mask_order::partitions}) {
    for (const auto& [name, draw] : heavy_tails::all()) {
      INFO(name);
      const auto x = draw(1000, 3);
      double sent = 0;
      for (std::uint64_t round = 20; round < 30; ++round) {
        sent += 1 - lost_in(shared_mask{{.share = 0.1, .order = order, .seed = 4}}, x, round);
      }
      CHECK(sent == Approx(1.0).epsilon(1e-6));
    }
  }
}
