// SPDX-License-Identifier: Apache-2.0
#include <causeway/parallel/serving/tuned_parameters.hpp>

#include <causeway/nn/gpt.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "support/catch.hpp"

namespace causeway::parallel {
namespace {

constexpr std::int64_t context = 12;
const nn::gpt_options options{.layers = 3, .heads = 2, .width = 8, .context = context, .vocabulary = 11};
const span_model model{1, options.layers, options.width, nn::gpt_family::maps(options)};

tuned_parameters made(const tuning_options& o) {
  auto outcome = tuned_parameters::create(o, model, context);
  REQUIRE(outcome);
  return std::move(*outcome);
}
const tuning_options both{.prompts = prompt_options{.rows = 2},
                          .adapters = nn::adapter_options{.rank = 4, .alpha = 2, .value = false, .output = true}};

}  // namespace

TEST_CASE("tuned_parameters: have names, shapes and blocks, and begin as the seed says", "[parallel][fast]") {
  auto p = made(both);
  thread_pool pool;
  p.initialize(pool, 5);
  std::vector<std::string> names;
  for (const auto& s : p.store().segments()) names.push_back(s.name);
  REQUIRE(names.size() == 2 + 3 * 4);
  CHECK(names[0] == "prompts");
  CHECK(names[1] == "deep_prompts");
  CHECK(names[2] == "block.0.query.lora_A");
  CHECK(names.back() == "block.2.output.lora_B");
  CHECK(p.store().segments()[2].rows == 4);
  CHECK(p.store().segments()[3].columns == 4);
  CHECK(p.store().segments().back().block == 2);
  CHECK(p.store().count() == 2 * 8 + 3 * (2 * 8 + 2 * 4 * (8 + 8)));
  double squares = 0;
  for (std::size_t s = 2; s < names.size(); s += 2) {
    for (std::int64_t i = 0; i < 32; ++i) {
      squares += std::pow(static_cast<double>(p.store().value(s)[i]), 2);
      CHECK(p.store().value(s + 1)[i] == 0.0F);
    }
  }
  CHECK(squares == Approx(6 * 32 / 8.0).epsilon(0.3));  // variance 1/inputs
  auto same = made(both), other = made(both);
  same.initialize(pool, 5);
  other.initialize(pool, 6);
  const auto alike = [&](tuned_parameters& q) {
    return std::equal(p.store().values().begin(), p.store().values().end(), q.store().values().begin());
  };
  CHECK(alike(same));
  CHECK_FALSE(alike(other));
}

TEST_CASE("tuned_parameters: servers get a block's prompts, then its adapters with alpha/rank in B; gradients go back",
          "[parallel][fast]") {
  auto p = made(both);
  auto& store = p.store();
  for (std::size_t s = 0; s < store.segments().size(); ++s) {
    for (std::int64_t i = 0; i < store.segments()[s].size(); ++i) {
      store.value(s)[i] = static_cast<float>(1000 * static_cast<std::int64_t>(s) + i);
    }
  }
  std::vector<float> tuned;
  p.gather(tuned);
  const std::size_t each = 16 + 4 * 32;
  CHECK(p.tuning().values(8, model.maps) == each);
  REQUIRE(tuned.size() == 3 * each);
  CHECK(tuned[each] == 1016);               // the second block's prompts
  CHECK(tuned[each + 16] == 6000);          // A of its queries
  CHECK(tuned[each + 16 + 33] == 3500.5F);  // the second of B, by a half
  CHECK(tuned.back() == 6515.5F);
  std::fill(store.gradients().begin(), store.gradients().end(), 1.0F);
  p.add_gradients(tuned);
  CHECK(store.gradient(0)[0] == 1);  // those in front are not of the blocks
  CHECK(store.gradient(1)[16] == 1017);
  CHECK(store.gradient(6)[0] == 6001);
  CHECK(store.gradient(7)[1] == 1 + 0.5F * 3500.5F);
}

TEST_CASE("tuned_parameters: what cannot work is refused before memory is taken", "[parallel][fast]") {
  const auto refused = [](const tuning_options& o, const char* why, const span_model& of = model) {
    const auto outcome = tuned_parameters::create(o, of, context);
    REQUIRE_FALSE(outcome);
    CHECK_THAT(outcome.error().text(), Catch::Matchers::Contains(why));
  };
  refused({}, "nothing is to be trained");
  for (const std::int64_t rows : {std::int64_t{0}, std::int64_t{-1}, context, std::numeric_limits<std::int64_t>::max()}) {
    refused({.prompts = prompt_options{.rows = rows}}, "rows of prompts");
  }
  for (const std::int64_t rank : {std::int64_t{0}, std::int64_t{9}, std::numeric_limits<std::int64_t>::max()}) {
    refused({.adapters = nn::adapter_options{.rank = rank}}, "between 1 and 8");
  }
  auto wide = options;
  wide.layers = 1 << 16, wide.width = 1 << 20;
  const span_model huge{1, wide.layers, wide.width, nn::gpt_family::maps(wide)};
  refused({.adapters = nn::adapter_options{.rank = 1 << 16}}, "more than 2^40", huge);
}

}  // namespace causeway::parallel
