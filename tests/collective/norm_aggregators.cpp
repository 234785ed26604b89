// SPDX-License-Identifier: Apache-2.0
#include <causeway/collective/norm_aggregators.hpp>

#include <causeway/collective/gather_mean.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "aggregate.hpp"
#include "exchange_faults.hpp"
#include "support/catch.hpp"

using namespace cases;
using namespace causeway::collective;
using causeway::compress::matrix_range;

static_assert(Aggregator<radial_directional, plain, message_context>);
static_assert(Aggregator<median_norm_clip, pairs, message_context>);
static_assert(Aggregator<clipped_contributor_mean, pairs, message_context>);

namespace {

/// One value, then a 2 x 1 matrix, then one value, then a 2 x 1 matrix.
const std::vector<matrix_range> two_matrices{{1, 2, 1}, {4, 2, 1}};

/// Says that all rows lie on its device.
struct pairs_on_device : pairs {
  [[nodiscard]] bool keeps(std::span<const float>) const { return true; }
  [[nodiscard]] causeway::memory_source memory() const { return {}; }
  void clear(std::span<float> row) const { std::fill(row.begin(), row.end(), 0.0F); }
  void copy(std::span<float> to, std::span<const float> from) const { std::copy(from.begin(), from.end(), to.begin()); }
  [[nodiscard]] causeway::result<void> divide(std::span<float>, std::span<const float>, float) const { return {}; }
  void to_signs(std::span<float>) const {}
};
static_assert(RowCodec<pairs_on_device>);

bool near(const std::vector<float>& a, const std::vector<float>& b) {
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (std::abs(a[i] - b[i]) > 1e-5F) return false;
  }
  return a.size() == b.size();
}

}  // namespace

TEST_CASE("tensors of a row: matrices, and what lies between them", "[collective][fast]") {
  contribution<plain> all{{}, two_matrices};
  const auto tensors = detail::tensors_of(all.context(), 8);
  std::vector<std::vector<std::size_t>> seen;
  for (const auto& t : tensors) seen.push_back({t.offset, t.size});
  CHECK(seen == std::vector<std::vector<std::size_t>>{{0, 1}, {1, 2}, {3, 1}, {4, 2}, {6, 2}});
  CHECK(detail::tensors_of(contribution<plain>{}.context(), 3).size() == 1);
  CHECK(detail::tensors_of(contribution<plain>{}.context(), 0).empty());
}

TEST_CASE("radial directional: right angles keep their length, tensor by tensor", "[collective][fast]") {
  contribution<plain> all{{}, two_matrices};
  all.add({2, 3, 0, 8, 1, 0}, 1);
  all.add({4, 0, 5, 0, -2, 0}, 1);
  // First matrix: norms 3 and 5, directions x and y. Second: norms 1 and 2, opposite directions.
  const float side = 4.0F / std::sqrt(2.0F);
  CHECK(near(*all.combine(radial_directional{}), {3, side, side, 4, 0, 0}));
}

TEST_CASE("radial directional: weights count in norms and in directions", "[collective][fast]") {
  contribution<plain> all{{}, {{0, 2, 1}}};
  all.add({1, 0}, 3);
  all.add({0, 9}, 1);
  const float length = (3 * 1 + 1 * 9) / 4.0F;
  CHECK(near(*all.combine(radial_directional{}), {length * 3 / std::sqrt(10.0F), length / std::sqrt(10.0F)}));
  all.add({0, 0}, 4);  // has no direction, but shortens the mean
  CHECK(near(*all.combine(radial_directional{}), {length * 1.5F / std::sqrt(10.0F), length * 0.5F / std::sqrt(10.0F)}));
}

TEST_CASE("radial directional: embeddings are averaged as they are; equal contributions stay what they are",
          "[collective][fast]") {
  contribution<plain> all{{}, {{0, 3, 1, causeway::parameter_kind::embedding}, {3, 2, 1}}};
  all.add({1, 0, 0, 1, 0}, 1);
  all.add({0, 1, 0, 0, 1}, 1);
  const float half = 0.5F, side = std::sqrt(0.5F);
  CHECK(near(*all.combine(radial_directional{}), {half, half, 0, side, side}));
  contribution<plain> same{{}, {{0, 2, 2}}};
  for (int i = 0; i < 3; ++i) same.add({1, -2, 3, 4}, 2);
  CHECK(near(*same.combine(radial_directional{}), {1, -2, 3, 4}));
  contribution<plain> none{{}, {{0, 2, 2}}};
  none.add({0, 0, 0, 0}, 2);
  CHECK(*none.combine(radial_directional{}) == std::vector<float>(4));
}

TEST_CASE("median norm clip: the loud are turned down to the median, tensor by tensor", "[collective][fast]") {
  contribution<plain> all{{}, two_matrices};
  all.add({1, 3, 4, 0, 0, 0}, 1);
  all.add({1, 0, 5, 0, 0, 2}, 1);
  all.add({100, 0, 500, 0, 0, 1}, 1);
  // Norms: 1 1 100 | 5 5 500 | 0 0 0 | 0 2 1.
  CHECK(near(*all.combine(median_norm_clip{}), {1, 1, 14.0F / 3, 0, 0, 2.0F / 3}));
}

TEST_CASE("median norm clip: of two the lower norm counts; weights divide, not the median", "[collective][fast]") {
  contribution<plain> all{{}, {{0, 2, 1}}};
  all.add({4, 0}, 1);
  all.add({0, 2}, 3);
  CHECK(near(*all.combine(median_norm_clip{}), {2.0F / 4, 6.0F / 4}));
}

TEST_CASE("median norm clip: huge tensors and messages that do not decode count for nothing", "[collective][fast]") {
  contribution<plain> all{{}, two_matrices};
  all.add({1, 3, 4, 0, 1, 0}, 1);
  all.add({1, 1001, 0, 0, 1, 0}, 1);
  all.add({1, 3, std::numeric_limits<float>::quiet_NaN(), 0, 9, 0}, 5);
  CHECK(near(*all.combine(median_norm_clip{}), {1, 3, 4, 0, 1, 0}));
  CHECK(near(*all.combine(median_norm_clip{.largest = 2000}), {1, (3 + 5) / 2.0F, 2, 0, 1, 0}));

  contribution<plain> spread{{}, {{0, 2, 1}}};  // the norm is beyond the limit, no value is
  spread.add({900, 900}, 1);
  CHECK(near(*spread.combine(median_norm_clip{}), {900, 900}));

  contribution<plain> hopeless;
  hopeless.add({5000}, 1);
  hopeless.add({std::numeric_limits<float>::infinity()}, 1);
  CHECK(hopeless.refused(median_norm_clip{}) == std::pair{2U, errc::invalid_argument});
}

TEST_CASE("clipped contributor mean: the loud are turned down, who sent a value is divided by", "[collective][fast]") {
  contribution<pairs> all{pairs{1.0F}, {{0, 2, 1}, {2, 1, 1}}};
  all.add({3, 4, 2}, 1);
  all.add({0.5F, 10, 0}, 3);  // 0.5 is not sent
  all.add({0, 2, 8}, 1);
  // Norms: 5 10 2 | 2 0 8; medians 5 and 2.
  const clipped_contributor_mean clips{.clips = true};
  CHECK(near(*all.combine(clips), {3, (4 + 3 * 5 + 2) / 5.0F, 2}));
  CHECK(near(all.counts, {1, 5, 2}));
  CHECK(near(*all.combine(clipped_contributor_mean{.over_all = true, .clips = true}), {3 / 5.0F, 21 / 5.0F, 4 / 5.0F}));
  CHECK(near(*all.combine(clipped_contributor_mean{}), {3, (4 + 3 * 10 + 2) / 5.0F, 5}));
  CHECK(*all.combine(clipped_contributor_mean{}) == *all.combine(contributor_mean{}));
  all.counts.clear();  // the caller does not want them
  CHECK(near(*all.combine(clips), {3, 21 / 5.0F, 2}));
  CHECK(*all.combine(clipped_contributor_mean{}) == *all.combine(contributor_mean{}));

  contribution<pairs> broken{pairs{1.0F}};
  broken.add({1, 2}, 1);
  broken.add({1, std::numeric_limits<float>::infinity()}, 1);
  CHECK(broken.refused(clips) == std::pair{1U, errc::non_finite});
}

TEST_CASE("clipped contributor mean: rows on a device are not clipped, and the refusal is of its own",
          "[collective][fast]") {
  contribution<pairs_on_device> all{pairs_on_device{}};
  all.add({1, 2}, 1);
  all.add({3, 4}, 1);
  CHECK(all.refused(clipped_contributor_mean{.clips = true}) == std::pair{2U, errc::unsupported});
  CHECK(all.refused(clipped_contributor_mean{}).first == UINT32_MAX);
}

TEST_CASE("norm aggregators: over a network all peers end with the same bits", "[collective][fast]") {
  const std::uint32_t size = 5;
  const std::vector<matrix_range> matrices{{0, 8, 16}, {200, 10, 3}};
  std::vector<std::vector<float>> radial(size), clipped(size), sparse(size);
  const memory_network network{size};
  const auto outcomes = run_sides(network, [&](side& s) -> causeway::result<void> {
    const message_context ctx = {.pool = s.pool, .matrices = matrices};
    radial[s.self] = clipped[s.self] = sparse[s.self] = whole_values(s.self, 300);
    if (s.self == 3) clipped[s.self][7] = std::numeric_limits<float>::quiet_NaN();
    gather_mean<plain, radial_directional> first;
    gather_mean<plain, median_norm_clip> second;
    CAUSEWAY_TRY(run_exchange(first, s.port(1), {.values = radial[s.self]}, ctx));
    CAUSEWAY_TRY(run_exchange(second, s.port(2), {.values = clipped[s.self]}, ctx));
    gather_mean<pairs, clipped_contributor_mean> third{pairs{1.0F}, clipped_contributor_mean{.clips = true}};
    return run_exchange(third, s.port(3), {.values = sparse[s.self]}, ctx);
  });
  REQUIRE(all_succeeded(outcomes));
  for (std::uint32_t p = 1; p < size; ++p) {
    CHECK(same_bits(radial[0], radial[p]));
    CHECK(same_bits(clipped[0], clipped[p]));
    CHECK(same_bits(sparse[0], sparse[p]));
  }
  for (const float x : clipped[0]) CHECK(std::isfinite(x));
}
