// SPDX-License-Identifier: Apache-2.0
#include <causeway/compress/threshold.hpp>

#include "compress/heavy_tails.hpp"
#include "compress/message_checks.hpp"
#include "support/catch.hpp"

#include <causeway/compress/none.hpp>
#include <causeway/compress/sparse.hpp>

#include <algorithm>
#include <cmath>
#include <limits>

using namespace causeway;
using namespace causeway::compress;

namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float not_a_number = std::numeric_limits<float>::quiet_NaN();

using coordinates = std::vector<std::uint32_t>;

template <class S>
coordinates selected(const S& sparsifier, const message_context& ctx, const std::vector<float>& x) {
  coordinates kept;
  std::vector<std::byte> room(sparsifier.most_bytes(ctx, x.size()));
  REQUIRE(sparsifier.select(ctx, x, kept, room) <= room.size());
  return kept;
}

}  // namespace

TEST_CASE("threshold: values of at least a magnitude, whatever their sign", "[compress][fast]") {
  thread_pool pool{1};
  const message_context ctx{.pool = pool};
  const std::vector<float> x{0.5F, -0.5F, 0.49999F, -4.0F, 0.0F, -0.0F, infinity, not_a_number};
  CHECK(selected(threshold{{.least = 0.5F, .unit = threshold_unit::absolute}}, ctx, x) == coordinates{0, 1, 3, 6, 7});
  CHECK(selected(threshold{{.least = 0.125F, .unit = threshold_unit::largest}}, ctx, x) == coordinates{0, 1, 3, 6, 7});
  CHECK(selected(threshold{{.least = 0.126F, .unit = threshold_unit::largest}}, ctx, x) == coordinates{3, 6, 7});
}

TEST_CASE("threshold: relative to the root mean square", "[compress][fast]") {
  thread_pool pool{1};
  const message_context ctx{.pool = pool};
  const std::vector<float> x{7.0F, -1.0F, 5.0F, -5.0F};  // rms 5
  CHECK(selected(threshold{{.least = 1.0F}}, ctx, x) == coordinates{0, 2, 3});
  CHECK(selected(threshold{{.least = 1.01F}}, ctx, x) == coordinates{0});
  CHECK(selected(threshold{{.least = 0.2F}}, ctx, x) == coordinates{0, 1, 2, 3});
  CHECK(selected(threshold{{.least = 0.01F}}, ctx, {1.0F, not_a_number, 2.0F}) == coordinates{1});
}

TEST_CASE("threshold: nothing of a row of zeros", "[compress][fast]") {
  thread_pool pool{1};
  const message_context ctx{.pool = pool};
  for (const auto unit : {threshold_unit::absolute, threshold_unit::largest, threshold_unit::rms}) {
    CHECK(selected(threshold{{.least = 0.5F, .unit = unit}}, ctx, std::vector<float>(100, 0.0F)).empty());
    CHECK(selected(threshold{{.least = 0.5F, .unit = unit}}, ctx, {}).empty());
  }
}

TEST_CASE("threshold: neither thread count nor instruction set change the selection", "[compress][fast]") {
  thread_pool alone{1}, three{3};
  const auto x = codec_checks::values(100001);
  for (const auto unit : {threshold_unit::absolute, threshold_unit::largest, threshold_unit::rms}) {
    const threshold sparsifier{{.least = 0.75F, .unit = unit}};
    const auto kept = selected(sparsifier, {.pool = alone}, x);
    CHECK(kept.size() > 100);
    CHECK(selected(sparsifier, {.pool = three}, x) == kept);
  }
  const float rms = compress::detail::rms_of(alone, x, kernels::simd_level::portable);
  double squares = 0;
  for (const float v : x) squares += static_cast<double>(v) * static_cast<double>(v);
  CHECK(rms == Approx(std::sqrt(squares / 100001)).epsilon(1e-6));
  for (const auto level : support::simd_levels()) CHECK(compress::detail::rms_of(three, x, level) == rms);
}

TEST_CASE("threshold: a count, then indices in the smallest form", "[compress][fast]") {
  thread_pool pool{1};
  const message_context ctx{.pool = pool};
  const threshold sparsifier{{.least = 1.0F, .unit = threshold_unit::absolute}};
  std::vector<float> x(1000, 0.0F);
  x[0x2A] = 1.0F;
  coordinates kept;
  std::vector<std::byte> room(sparsifier.most_bytes(ctx, x.size()));
  CHECK(room.size() == 4 + 125);
  REQUIRE(sparsifier.select(ctx, x, kept, room) == 4 + 2);
  CHECK(codec_checks::as_ints({room.begin(), room.begin() + 6}) == std::vector<int>{1, 0, 0, 0, 0x2A, 0});
  x.assign(1000, 2.0F);
  CHECK(sparsifier.select(ctx, x, kept, room) == room.size());
}

TEST_CASE("threshold: a count or indices that lie are refused", "[compress][fast]") {
  thread_pool pool{1};
  const message_context ctx{.pool = pool};
  const threshold sparsifier;
  coordinates kept;
  const auto code = [&](const std::vector<int>& ints, std::size_t n) {
    std::vector<std::byte> bytes;
    for (const int i : ints) bytes.push_back(static_cast<std::byte>(i));
    const auto outcome = sparsifier.read(ctx, bytes, n, kept);
    return outcome ? errc{} : outcome.error().code;
  };
  CHECK(code({1, 0, 0, 0, 0xE7, 3}, 1000) == errc{});         // 999
  CHECK(code({1, 0, 0, 0, 0xE8, 3}, 1000) == errc::corrupt);  // 1000
  CHECK(code({1, 0, 0, 0, 0xE7, 7}, 1000) == errc::corrupt);  // padding
  CHECK(code({1, 0, 0, 0, 0xE7}, 1000) == errc::protocol);
  CHECK(code({1, 0, 0}, 1000) == errc::protocol);
  CHECK(code({0xFF, 0xFF, 0xFF, 0xFF}, 1000) == errc::corrupt);  // no memory is taken for them
  CHECK(code({0xE8, 3, 0, 0}, 1000) == errc::protocol);          // 1000 of 1000, but no mask
  CHECK(code({0, 0, 0, 0}, 1000) == errc{});
  CHECK(kept.empty());
}

TEST_CASE("significant: an update travels when it is large next to its parameter", "[compress][fast]") {
  thread_pool pool{1};
  const std::vector<float> reference{1.0F, -1.0F, 10.0F, 0.0F, 0.0F, 1.0F};
  const std::vector<float> x{0.011F, -0.009F, 0.09F, 0.00002F, 0.000005F, not_a_number};
  const message_context ctx{.pool = pool, .reference = reference};
  const significant filter{{.first = 0.01F, .floor = 0.001F}};
  CHECK(selected(filter, ctx, x) == coordinates{0, 3, 5});
  message_context later = ctx;
  later.round = 3;  // the threshold has halved
  CHECK(selected(filter, later, x) == coordinates{0, 1, 2, 3, 5});
  CHECK(selected(filter, {.pool = pool}, x) == coordinates{0, 1, 2, 3, 5});  // against the floor alone
}

TEST_CASE("significant: the parameter is this peer's own, which its update has moved", "[compress][fast]") {
  thread_pool pool{1};
  const std::vector<float> reference{1.0F, 1.0F};
  const message_context ctx{.pool = pool, .reference = reference};
  CHECK(selected(significant{{.first = 0.01F}}, ctx, {0.00995F, -0.01005F}) == coordinates{0});  // of 0.99005 and 1.01005
}

TEST_CASE("significant: what is not finite travels even against an infinite parameter", "[compress][fast]") {
  thread_pool pool{1};
  const std::vector<float> reference{infinity, not_a_number, 1.0F};
  const message_context ctx{.pool = pool, .reference = reference};
  CHECK(selected(significant{}, ctx, {infinity, 1.0F, -infinity}) == coordinates{0, 1, 2});
}

TEST_CASE("significant: the threshold shrinks with the root of the round", "[compress][fast]") {
  const significant filter{{.first = 0.01F}};
  CHECK(filter.threshold_of(0) == 0.01F);
  CHECK(filter.threshold_of(3) == 0.005F);
  CHECK(filter.threshold_of(99) == Approx(0.001));
}

TEST_CASE("thresholds: options that cannot work are named", "[compress][fast]") {
  CHECK(validate(threshold_options{}));
  CHECK(validate(threshold_options{.least = 0}).error().code == errc::invalid_argument);
  CHECK_FALSE(validate(threshold_options{.least = infinity}));
  CHECK_FALSE(validate(threshold_options{.least = not_a_number}));
  CHECK_FALSE(validate(threshold_options{.unit = static_cast<threshold_unit>(5)}));
  CHECK(validate(significant_options{}));
  CHECK(validate(significant_options{.first = -1}).error().code == errc::invalid_argument);
  CHECK_FALSE(validate(significant_options{.floor = 0}));
  CHECK_FALSE(validate(significant_options{.floor = not_a_number}));
}

namespace {

auto trip_by(thread_pool& pool, float least, threshold_unit unit) {
  return [&pool, codec = sparse<no_transform, threshold, none>{{}, threshold{{.least = least, .unit = unit}}}](
             const std::vector<float>& x) { return message_checks::trip_of(codec, {.pool = pool})(x); };
}

}  // namespace

TEST_CASE("threshold: contracts by the stated factor, whatever the tails, and no factor is smaller", "[compress][fast]") {
  thread_pool pool{1};
  for (const float least : {0.1F, 0.5F, 0.9F}) {
    INFO(least);
    const double l = static_cast<double>(least);
    CHECK(heavy_tails::worst_lost(trip_by(pool, least, threshold_unit::rms), {1, 2, 50, 1000, 30000}) <= l * l);
    const auto under_rms = heavy_tails::one_among(10000, 100.0F * std::sqrt(1 - least * least), 0.999F * least);
    CHECK(heavy_tails::lost(under_rms, trip_by(pool, least, threshold_unit::rms)(under_rms)) ==
          Approx(l * l).epsilon(3e-3));

    const double stated = 9999 * l * l / (1 + 9999 * l * l);
    CHECK(heavy_tails::worst_lost(trip_by(pool, least, threshold_unit::largest), {1, 2, 50, 1000, 10000}) <= stated);
    const auto worst = heavy_tails::one_among(10000, 1.0F, 0.99999F * least);
    CHECK(heavy_tails::lost(worst, trip_by(pool, least, threshold_unit::largest)(worst)) == Approx(stated).epsilon(1e-4));
  }
}

TEST_CASE("threshold: beyond the root mean square it may send nothing, round after round", "[compress][fast]") {
  thread_pool pool{1};
  const std::vector<float> alike(100, 3.0F);
  CHECK(heavy_tails::lost(alike, trip_by(pool, 1.5F, threshold_unit::rms)(alike)) == 1.0);
  CHECK(heavy_tails::lost(alike, trip_by(pool, 1.5F, threshold_unit::largest)(alike)) == 1.0);
}

TEST_CASE("thresholds: a fixed one bounds each value that is left, whatever the tails", "[compress][fast]") {
  thread_pool pool{1};
  const auto absolute = trip_by(pool, 0.3F, threshold_unit::absolute);
  const sparse<no_transform, significant, none> gaia{{}, significant{{.first = 0.01F, .floor = 0.1F}}};
  for (const auto& [name, draw] : heavy_tails::all()) {
    INFO(name);
    const auto reference = draw(5000, 9);
    const message_context ctx{.pool = pool, .reference = reference};
    std::vector<float> by_size(5000), by_parameter(5000);
    std::size_t beyond = 0;
    for (std::uint64_t round = 1; round <= 20; ++round) {
      const auto x = draw(5000, round);
      for (std::size_t i = 0; i < x.size(); ++i) by_size[i] += x[i], by_parameter[i] += 0.01F * x[i];
      const auto a = absolute(by_size), b = message_checks::trip_of(gaia, ctx)(by_parameter);
      for (std::size_t i = 0; i < x.size(); ++i) {
        by_size[i] -= a[i];
        const float parameter = std::max(0.1F, std::abs(reference[i] - by_parameter[i]));
        by_parameter[i] -= b[i];
        beyond += std::abs(by_size[i]) >= 0.3F || std::abs(by_parameter[i]) > 0.010001F * parameter ? 1U : 0U;
      }
    }
    CHECK(beyond == 0);
  }
}
