// SPDX-License-Identifier: Apache-2.0
#include <causeway/nn/adapters.hpp>

#include <causeway/nn/gpt.hpp>
#include <causeway/nn/llama.hpp>

#include <cstdint>
#include <limits>
#include <vector>

#include "support/catch.hpp"

namespace causeway::nn {
namespace {

const map_sizes of_gpt = gpt_family::maps({.heads = 2, .width = 8, .mlp_ratio = 4});
const map_sizes of_llama = llama_family::maps({.heads = 4, .kv_heads = 2, .width = 8, .hidden = 12});

}  // namespace

TEST_CASE("adapters: are as many values as their matrices have", "[nn][fast]") {
  CHECK(adapter_shape{}.values(of_gpt) == 0);
  CHECK(adapter_shape{3, 0b0000101}.values(of_gpt) == 3 * 2 * (8 + 8));
  CHECK(adapter_shape{3, 0b1101111}.values(of_gpt) == 3 * (4 * 16 + 2 * (8 + 32)));
  CHECK(adapter_shape{2, 0b0000101}.values(of_llama) == 2 * (16 + 8 + 4));
  CHECK(adapter_shape{2, 0b1111111}.values(of_llama) == 2 * (16 + 12 + 12 + 16 + 3 * 20));
  CHECK(block_tuning{5, {3, 0b1}}.values(8, of_gpt) == 5 * 8 + 3 * 16);
  CHECK(block_tuning{5, {3, 0b1}}.rows(8, of_gpt) == 5 + 6);
  CHECK(block_tuning{0, {1, 0b100}}.rows(8, of_llama) == 2);  // 12 values: rounded up
}

TEST_CASE("adapters: shapes that a model does not have, or that no message may have, do not fit", "[nn][fast]") {
  CHECK(adapter_shape{}.fits(of_gpt));
  CHECK(adapter_shape{adapter_shape::most_rank, 0b1101111}.fits(of_gpt));
  CHECK(adapter_shape{1, 0b1111111}.fits(of_llama));
  CHECK_FALSE(adapter_shape{1, 0b0010000}.fits(of_gpt));
  CHECK_FALSE(adapter_shape{1, 0b10000001}.fits(of_llama));
  CHECK_FALSE(adapter_shape{1, 0}.fits(of_gpt));
  CHECK_FALSE(adapter_shape{0, 1}.fits(of_gpt));
  CHECK_FALSE(adapter_shape{adapter_shape::most_rank + 1, 1}.fits(of_gpt));
  // The largest that a message can name, in the largest model: no number overflows.
  const auto widest = gpt_family::maps({.heads = 1, .width = 1 << 20, .mlp_ratio = 64});
  const std::int64_t rows = block_tuning{0, {adapter_shape::most_rank, 0b1101111}}.rows(1 << 20, widest);
  CHECK(rows == std::int64_t{adapter_shape::most_rank} * (8 + 2 * 65));
  CHECK(std::numeric_limits<std::int64_t>::max() / rows > (1 << 16));
}

TEST_CASE("adapters: options choose maps, and what cannot work is refused with what would", "[nn][fast]") {
  const auto shape = [](const adapter_options& o, const map_sizes& sizes = of_gpt) { return shape_of(o, sizes); };
  CHECK(*shape({.rank = 8}) == adapter_shape{8, 0b0000101});
  CHECK(*shape({.rank = 2, .query = false, .key = true, .value = false, .output = true}) == adapter_shape{2, 0b0001010});
  CHECK(*shape({.rank = 2, .feed_forward = true}) == adapter_shape{2, 0b1100101});
  CHECK(*shape({.rank = 2, .feed_forward = true}, of_llama) == adapter_shape{2, 0b1110101});
  const auto refused = [&](const adapter_options& o, const char* why, const map_sizes& sizes = of_gpt) {
    const auto outcome = shape(o, sizes);
    REQUIRE_FALSE(outcome);
    CHECK(outcome.error().code == errc::invalid_argument);
    CHECK_THAT(outcome.error().text(), Catch::Matchers::Contains(why));
  };
  refused({.rank = 0}, "between 1 and 8");
  refused({.rank = -1}, "between 1 and 8");
  refused({.rank = 9}, "between 1 and 8");
  refused({.rank = 5}, "between 1 and 4", of_llama);  // two heads of two values
  refused({.rank = std::numeric_limits<std::int64_t>::max()}, "between 1 and 8");
  refused({.rank = 2, .query = false, .value = false}, "no linear map");
  for (const float alpha : {0.0F, -1.0F, std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    refused({.rank = 2, .alpha = alpha}, "alpha");
  }
}

TEST_CASE("adapters: matrices lie one after another, with their gradients at the same places", "[nn][fast]") {
  const adapter_shape shape{3, 0b0100100};
  std::vector<float> values(static_cast<std::size_t>(shape.values(of_gpt))), gradients(values.size());
  const block_adapters all = adapters_at(shape, of_gpt, values.data(), gradients.data());
  CHECK_FALSE(all[linear_map::query].down);
  CHECK_FALSE(all[linear_map::down].up);
  const auto check = [&](const autograd::parameter& p, std::int64_t at, std::int64_t rows, std::int64_t columns) {
    CHECK(p.value == values.data() + at);
    CHECK(p.gradient == gradients.data() + at);
    CHECK(p.rows == rows);
    CHECK(p.columns == columns);
  };
  check(all[linear_map::value].down, 0, 3, 8);
  check(all[linear_map::value].up, 24, 8, 3);
  check(all[linear_map::up].down, 48, 3, 8);
  check(all[linear_map::up].up, 72, 32, 3);
  CHECK(values.size() == 72 + 96);
  CHECK(adapters_at(shape, of_gpt, values.data(), nullptr)[linear_map::up].up.gradient == nullptr);
}

}  // namespace causeway::nn
