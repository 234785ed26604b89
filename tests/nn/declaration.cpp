// SPDX-License-Identifier: Apache-2.0
#include <causeway/nn/declaration.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "support/catch.hpp"

namespace causeway::nn {
namespace {

std::vector<float> filled(unsigned threads, std::uint64_t seed) {
  parameter_store store;
  declaration d{store, {}, 8};
  d.table("table", 300, 40);
  d.in_block(0);
  d.vector("gain", 40, 1.0F);
  d.matrix("matrix", 80, 40, residual_deviation(8));
  store.allocate();
  thread_pool pool{threads};
  fill_initial(pool, store, std::move(d).take_initial(), seed);
  return {store.values().begin(), store.values().end()};
}

double deviation(const float* first, std::size_t count) {
  double sum = 0.0;
  for (std::size_t i = 0; i < count; ++i) sum += static_cast<double>(first[i]) * static_cast<double>(first[i]);
  return std::sqrt(sum / static_cast<double>(count));
}

}  // namespace

TEST_CASE("initial values: the same for any number of threads, another for another seed", "[nn][fast]") {
  const auto one = filled(1, 3);
  CHECK(filled(2, 3) == one);
  CHECK(filled(5, 3) == one);
  CHECK(filled(1, 4) != one);
}

TEST_CASE("initial values: tables 0.02, residual matrices 0.02/sqrt(2L), vectors constant", "[nn][fast]") {
  const auto v = filled(1, 0);
  CHECK(deviation(v.data(), 12000) == Approx(0.02).epsilon(0.03));
  CHECK(v[12000] == 1.0F);
  CHECK(v[12039] == 1.0F);
  CHECK(v[12040] == 0.0F);  // padding
  CHECK(deviation(v.data() + 12048, 3200) == Approx(0.02 / 4.0).epsilon(0.05));
}

TEST_CASE("initial values: no two rows are alike", "[nn][fast]") {
  const auto v = filled(1, 0);
  for (std::size_t row = 1; row < 300; ++row) CHECK(v[0] != v[row * 40]);
  CHECK(v[0] != v[12048] * 4.0F);  // another segment, scaled to the same deviation
}

TEST_CASE("declaration: kinds and blocks are what optimizers need", "[nn][fast]") {
  parameter_store store;
  declaration d{store, {}, 8};
  CHECK(d.table("t", 2, 3) == 0);
  d.in_block(4);
  CHECK(d.matrix("m", 5, 6) == 1);
  CHECK(d.vector("v", 7, 0.0F) == 2);
  const auto s = store.segments();
  CHECK(s[0].kind == parameter_kind::embedding);
  CHECK(s[0].block == -1);
  CHECK(s[1].kind == parameter_kind::matrix);
  CHECK(s[1].block == 4);
  CHECK(s[1].rows == 5);
  CHECK(s[2].kind == parameter_kind::vector);
  CHECK(s[2].rows == 1);
}

TEST_CASE("declaration: joined ends are block 0, and layers the blocks behind it", "[nn][fast]") {
  const auto blocks_of = [](const model_part& part) {
    parameter_store store;
    declaration d{store, part, 2, true};
    d.token_table("t", 20, 8, true);
    d.in_block(2);
    d.vector("n", 8, 1.0F);
    for (int layer = 0; layer < 2; ++layer) {
      d.in_block(layer);
      d.matrix("m", 8, 8);
    }
    std::vector<int> blocks;
    for (const auto& s : store.segments()) blocks.push_back(s.block);
    return blocks;
  };
  CHECK(blocks_of({}) == std::vector<int>{0, 0, 1, 2});
  CHECK(blocks_of(model_part{{0, 1}}) == std::vector<int>{0, 0});
  CHECK(blocks_of(model_part{{2, 3}}) == std::vector<int>{2});
}

TEST_CASE("declaration: a part gets its own parameters, which start as in the whole model", "[nn][fast]") {
  const auto declare = [](parameter_store& store, const model_part& part) {
    declaration d{store, part, 3};
    std::vector<std::size_t> at{d.token_table("t", 20, 8, true), d.table("p", 4, 8)};
    for (int block = 0; block < 3; ++block) {
      d.in_block(block);
      at.push_back(d.matrix("m", 8, 8));
    }
    d.in_block(3);
    at.push_back(d.vector("n", 8, 1.0F));
    store.allocate();
    thread_pool pool{1};
    fill_initial(pool, store, std::move(d).take_initial(), 7);
    return at;
  };
  parameter_store whole;
  declare(whole, {});
  const auto values = [](parameter_store& s, std::size_t i) {
    return std::vector<float>(s.value(i), s.value(i) + s.segments()[i].size());
  };
  parameter_store first;
  CHECK(declare(first, model_part{{0, 1}}) == std::vector<std::size_t>{0, 1, 2, not_held, not_held, not_held});
  parameter_store last;
  CHECK(declare(last, model_part{{2, 3}}) == std::vector<std::size_t>{0, not_held, not_held, not_held, 1, 2});
  CHECK(values(first, 2) == values(whole, 2));
  CHECK(values(last, 0) == values(whole, 0));
  CHECK(values(last, 1) == values(whole, 4));
  CHECK(last.segments()[2].block == 3);
}

}  // namespace causeway::nn
