// SPDX-License-Identifier: Apache-2.0
#include <causeway/collective/aggregator.hpp>

#include <limits>
#include <vector>

#include "aggregate.hpp"
#include "support/catch.hpp"

using namespace cases;
using namespace causeway::collective;

static_assert(Aggregator<mean, plain, message_context>);
static_assert(Aggregator<sum, pairs, message_context>);
static_assert(Aggregator<contributor_mean, pairs, message_context>);
static_assert(Aggregator<sign_of<contributor_mean>, mirrored, message_context>);

TEST_CASE("aggregator: the mean weighs messages, and what is left out is 0", "[collective][fast]") {
  contribution<pairs> all{pairs{1.0F}};
  all.add({2, 0.5F, 4}, 1);
  all.add({6, 0.5F, 0.5F}, 3);
  CHECK(*all.combine(mean{}) == std::vector<float>{5, 0, 1});
  CHECK(all.counts == std::vector<float>{4, 0, 1});
}

TEST_CASE("aggregator: the sum is the mean of as many messages as there are", "[collective][fast]") {
  contribution<pairs> all{pairs{1.0F}};
  all.add({2, 0.5F, 4}, 0.5F);
  all.add({6, 0.5F, 0.5F}, 0.5F);
  CHECK(*all.combine(sum{}) == std::vector<float>{8, 0, 4});
  CHECK(*all.combine(mean{}) == std::vector<float>{4, 0, 2});
}

TEST_CASE("aggregator: the mean of contributors divides by those who sent a coordinate", "[collective][fast]") {
  contribution<pairs> all{pairs{1.0F}};
  all.add({2, 0.5F, 4}, 1);
  all.add({6, 0.5F, 0.5F}, 3);
  CHECK(*all.combine(contributor_mean{}) == std::vector<float>{5, 0, 4});
  CHECK(all.counts == std::vector<float>{4, 0, 1});
  CHECK(*all.combine(contributor_mean{.over_all = true}) == std::vector<float>{5, 0, 1});
  all.counts.clear();  // the caller does not want them
  CHECK(*all.combine(contributor_mean{}) == std::vector<float>{5, 0, 4});
  CHECK(*all.combine(contributor_mean{.over_all = true}) == std::vector<float>{5, 0, 1});
}

TEST_CASE("aggregator: signs are those of the mean, after the inverse of the codec's transform", "[collective][fast]") {
  contribution<mirrored> all;
  all.add({-1, 2, 3, 0.5F}, 1);
  all.add({-2, -2, 1, 0.0F}, 1);
  CHECK(*all.combine(mean{}) == std::vector<float>{-1.5F, 0, 2, 0.25F});
  CHECK(*all.combine(sign_of_mean{}) == std::vector<float>{-1, 0, 1, 1});
  CHECK(*all.combine(sign_of<contributor_mean>{}) == std::vector<float>{-1, 0, 1, 1});
}

TEST_CASE("aggregator: a mean that is encoded once more is what its receivers would have", "[collective][fast]") {
  contribution<quarters> all;
  all.add({0.25F, 1, -3}, 1);
  all.add({0.5F, 1, 0.5F}, 1);
  CHECK(*all.combine(mean{}) == std::vector<float>{0.375F, 1, -1.25F});
  CHECK(*all.combine(recoded<>{}) == std::vector<float>{0.5F, 1, -1.25F});
}

TEST_CASE("aggregator: a message that does not decode, or a sum beyond f32, names its culprit", "[collective][fast]") {
  contribution<plain> all;
  all.add({1, 2}, 1);
  all.add({1, std::numeric_limits<float>::infinity()}, 1);
  for (const auto& code : {all.refused(mean{}), all.refused(contributor_mean{}), all.refused(sign_of_mean{})}) {
    CHECK(code == std::pair{1U, errc::non_finite});
  }
  contribution<plain> large;
  large.add({3e38F, 0}, 2);
  large.add({3e38F, 0}, 2);
  CHECK(large.refused(mean{}) == std::pair{2U, errc::non_finite});
  CHECK(large.refused(recoded<>{}) == std::pair{2U, errc::non_finite});
}
